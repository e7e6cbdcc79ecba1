// The threads of a device's grid, one after another: their reads and writes, without a device.
#include "cuda/convert_loop.h"

#include <sys/mman.h>

#include "check.h"

namespace fastload {
namespace {

constexpr std::size_t kTableElements = 768;

// Distinct bits for every (channel, value) as far as the element has room, so that a wrong channel or value is noticed.
template <typename Element>
std::vector<Element> make_table() {
    std::vector<Element> table;
    for (std::uint64_t i = 0; i < kTableElements; ++i) {
        table.push_back(static_cast<Element>((i + 1) * 0x9E3779B97F4A7C15U >> 13));
    }
    return table;
}

std::vector<std::uint8_t> make_pixels(std::size_t count) {
    std::vector<std::uint8_t> pixels(count);
    std::uint32_t state = 12345;
    for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    return pixels;
}

// The contract, element by element.
template <typename Element>
std::vector<Element> expected_elements(const BatchConversion& batch, const std::vector<Element>& table) {
    std::vector<Element> expected;
    const std::uint64_t pixels = batch.pixels_per_image;
    const auto element = [&](std::uint64_t image, std::uint64_t pixel, std::uint64_t channel) {
        return table[256 * channel + batch.pixels[(image * pixels + pixel) * 3 + channel]];
    };
    for (std::uint64_t image = 0; image < batch.images; ++image) {
        if (batch.channels_last) {
            for (std::uint64_t pixel = 0; pixel < pixels; ++pixel) {
                for (std::uint64_t channel = 0; channel < 3; ++channel) {
                    expected.push_back(element(image, pixel, channel));
                }
            }
        } else {
            for (std::uint64_t channel = 0; channel < 3; ++channel) {
                for (std::uint64_t pixel = 0; pixel < pixels; ++pixel) {
                    expected.push_back(element(image, pixel, channel));
                }
            }
        }
    }
    return expected;
}

template <typename Element, int kWidth>
void run_thread(const BatchConversion& batch, const Element* table, ThreadShare share) {
    if (batch.channels_last) {
        convert_interleaved<Element, kWidth>(batch, table, share);
    } else {
        convert_planar<Element, kWidth>(batch, table, share);
    }
}

// The last thread first: no thread may rely on another.
template <typename Element>
void run_grid(const BatchConversion& batch, const Element* table, std::uint64_t threads) {
    for (std::uint64_t thread = threads; thread-- > 0;) {
        if (group_width(batch) == 1) {
            run_thread<Element, 1>(batch, table, {thread, threads});
        } else {
            run_thread<Element, 16 / kSize<Element>>(batch, table, {thread, threads});
        }
    }
}

// Runs a batch whose pixels and elements begin `offset` pieces after a boundary of 16 bytes, and returns the elements.
// Checks that the memory before and after them stays as it is.
template <typename Element>
std::vector<Element> converted(BatchConversion batch, const std::vector<Element>& table, std::uint64_t threads,
                               std::size_t offset) {
    constexpr Element kUntouched = static_cast<Element>(0x5A5A5A5A5A5A5A5AU);
    const std::size_t values = 3 * static_cast<std::size_t>(batch.images * batch.pixels_per_image);
    const std::size_t whole = values + 2 * 16;
    std::vector<Bits<16>> out_memory(whole * sizeof(Element) / 16 + 1);
    std::vector<Element> elements(whole, kUntouched);
    std::memcpy(out_memory.data(), elements.data(), whole * sizeof(Element));
    batch.out = reinterpret_cast<std::uint8_t*>(out_memory.data()) + (16 + offset) * sizeof(Element);
    run_grid(batch, table.data(), threads);
    std::memcpy(elements.data(), out_memory.data(), whole * sizeof(Element));
    std::size_t changed = 0;
    for (std::size_t i = 0; i < whole; ++i) {
        const bool is_inside = i >= 16 + offset && i < 16 + offset + values;
        if (!is_inside && elements[i] != kUntouched) ++changed;
    }
    CHECK_EQUAL(changed, std::size_t{0});
    const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(16 + offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(values)};
}

template <typename Element>
void check_every_shape() {
    const std::vector<Element> table = make_table<Element>();
    for (const bool channels_last : {false, true}) {
        for (const std::uint64_t images : {1U, 2U, 5U}) {
            for (const std::uint64_t pixels_per_image : {1U, 2U, 3U, 7U, 8U, 15U, 16U, 17U, 48U, 61U, 64U}) {
                for (const std::uint64_t threads : {1U, 2U, 7U, 32U, 5000U}) {
                    for (const std::size_t offset : {0U, 1U, 3U}) {
                        testing::current_variant() =
                            std::to_string(sizeof(Element)) + " bytes, channels_last " + std::to_string(channels_last) +
                            ", " + std::to_string(images) + " images of " + std::to_string(pixels_per_image) +
                            " pixels, " + std::to_string(threads) + " threads, offset " + std::to_string(offset);
                        const std::size_t values = 3 * static_cast<std::size_t>(images * pixels_per_image);
                        const std::vector<std::uint8_t> pixels = make_pixels(values);
                        std::vector<Bits<16>> memory((values + offset) / 16 + 1);
                        auto* const start = reinterpret_cast<std::uint8_t*>(memory.data()) + offset;
                        std::memcpy(start, pixels.data(), values);
                        BatchConversion batch;
                        batch.pixels = start;
                        batch.images = images;
                        batch.pixels_per_image = pixels_per_image;
                        batch.element_size_bytes = kSize<Element>;
                        batch.channels_last = channels_last;
                        CHECK(converted(batch, table, threads, offset) == expected_elements(batch, table));
                    }
                }
            }
        }
    }
}

TEST_CASE(convert_loop_makes_every_element_of_1_byte_once) { check_every_shape<std::uint8_t>(); }
TEST_CASE(convert_loop_makes_every_element_of_2_bytes_once) { check_every_shape<std::uint16_t>(); }
TEST_CASE(convert_loop_makes_every_element_of_4_bytes_once) { check_every_shape<std::uint32_t>(); }
TEST_CASE(convert_loop_makes_every_element_of_8_bytes_once) { check_every_shape<std::uint64_t>(); }

TEST_CASE(convert_loop_moves_16_bytes_only_where_every_group_begins_at_a_multiple_of_its_size) {
    const auto width = [](std::uintptr_t pixels, std::uintptr_t out, std::uint64_t pixels_per_image, int size,
                          bool channels_last) {
        BatchConversion batch;
        batch.pixels = reinterpret_cast<const std::uint8_t*>(pixels);
        batch.out = reinterpret_cast<void*>(out);
        batch.pixels_per_image = pixels_per_image;
        batch.element_size_bytes = size;
        batch.channels_last = channels_last;
        return group_width(batch);
    };
    CHECK_EQUAL(width(512, 512, 224 * 224, 1, false), 16);
    CHECK_EQUAL(width(512, 512, 224 * 224, 2, false), 8);
    CHECK_EQUAL(width(512, 512, 224 * 224, 4, false), 4);
    CHECK_EQUAL(width(512, 512, 224 * 224, 8, false), 2);
    CHECK_EQUAL(width(512 + 4, 512, 224 * 224, 4, false), 4);
    CHECK_EQUAL(width(512 + 2, 512, 224 * 224, 4, false), 1);
    CHECK_EQUAL(width(512, 512 + 8, 224 * 224, 4, false), 1);
    CHECK_EQUAL(width(512, 512, 225 * 225, 4, false), 1);
    CHECK_EQUAL(width(512, 512, 225 * 225, 4, true), 4);
}

// Zeros that take no memory until they are written.
class SparseMemory {
  public:
    explicit SparseMemory(std::size_t size_bytes)
        : size_bytes_(size_bytes),
          start_(::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                        0)) {}
    ~SparseMemory() {
        if (is_there()) ::munmap(start_, size_bytes_);
    }
    SparseMemory(const SparseMemory&) = delete;  // owns the mapping
    SparseMemory& operator=(const SparseMemory&) = delete;

    bool is_there() const { return start_ != MAP_FAILED; }
    void* start() const { return start_; }

  private:
    std::size_t size_bytes_;
    void* start_;
};

// The last group of a batch whose elements 32 bits cannot count, by the one thread that has it.
template <int kWidth>
void check_last_group(bool channels_last, std::uint64_t images, std::uint64_t pixels_per_image) {
    const std::uint64_t values = 3 * images * pixels_per_image;
    const SparseMemory pixels(values);
    const SparseMemory out(values * sizeof(std::uint32_t));
    CHECK(pixels.is_there() && out.is_there());
    if (!pixels.is_there() || !out.is_there()) return;
    const std::vector<std::uint32_t> table = make_table<std::uint32_t>();
    auto* const last_pixel = static_cast<std::uint8_t*>(pixels.start()) + values - 3;
    last_pixel[0] = 10;
    last_pixel[1] = 20;
    last_pixel[2] = 30;
    BatchConversion batch;
    batch.pixels = static_cast<const std::uint8_t*>(pixels.start());
    batch.out = out.start();
    batch.images = images;
    batch.pixels_per_image = pixels_per_image;
    batch.element_size_bytes = 4;
    batch.channels_last = channels_last;
    const std::uint64_t groups = values / kWidth / (channels_last ? 1 : 3);
    run_thread<std::uint32_t, kWidth>(batch, table.data(), {groups - 1, groups});
    if (kWidth == 1 && channels_last) {
        run_thread<std::uint32_t, kWidth>(batch, table.data(), {groups - 2, groups});
        run_thread<std::uint32_t, kWidth>(batch, table.data(), {groups - 3, groups});
    }
    const auto* const elements = static_cast<const std::uint32_t*>(out.start());
    const std::uint64_t channel_stride = channels_last ? 1 : pixels_per_image;
    const std::uint64_t red = channels_last ? values - 3 : values - 1 - 2 * pixels_per_image;
    CHECK_EQUAL(elements[red], table[10]);
    CHECK_EQUAL(elements[red + channel_stride], table[256 + 20]);
    CHECK_EQUAL(elements[red + 2 * channel_stride], table[512 + 30]);
}

TEST_CASE(convert_loop_reaches_the_end_of_more_than_2_to_the_32_elements) {
    for (const bool channels_last : {false, true}) {
        check_last_group<4>(channels_last, 30000, 224 * 224);
        check_last_group<1>(channels_last, 30000, 224 * 224);
        check_last_group<4>(channels_last, 1, std::uint64_t{1} << 31);
        check_last_group<1>(channels_last, 1, (std::uint64_t{1} << 31) + 1);
    }
}

}  // namespace
}  // namespace fastload
