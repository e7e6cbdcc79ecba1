#include "kernels/convert.h"

#include "check.h"
#include "image/plan/normalization.h"
#include "kernel_variants.h"
#include "readable_window.h"
#include "test_images.h"

namespace fastload {
namespace {

using namespace testing;

// Distinct bits for every (channel, value), so that a wrong channel or value is noticed.
template <typename T>
std::vector<T> make_table() {
    std::vector<T> table;
    for (std::uint64_t i = 0; i < 768; ++i) table.push_back(static_cast<T>((i + 1) * 0x9E3779B97F4A7C15U >> 3));
    return table;
}

template <typename T>
T element_of(const std::vector<T>& table, int channel, std::uint8_t value) {
    return table.empty() ? static_cast<T>(value) : table[static_cast<std::size_t>(channel) * 256 + value];
}

// The contract, element by element.
template <typename T>
std::vector<T> expected_elements(const StripImageView& source, const ConvertJob& job, const std::vector<T>& table) {
    const auto width = static_cast<std::size_t>(job.width);
    const auto height = static_cast<std::size_t>(job.height);
    std::vector<T> result(3 * width * height);
    for (int channel = 0; channel < 3; ++channel) {
        for (std::size_t y = 0; y < height; ++y) {
            for (std::size_t x = 0; x < width; ++x) {
                const std::int32_t column = static_cast<std::int32_t>(x) - job.left;
                const std::int32_t row = static_cast<std::int32_t>(y) - job.top;
                std::uint8_t value = 0;
                if (column >= 0 && column < source.width && row >= 0 && row < source.height) {
                    value = source.at(channel, job.is_mirrored ? source.width - 1 - column : column, row);
                }
                const auto c = static_cast<std::size_t>(channel);
                const std::size_t index = job.is_channels_last ? 3 * (y * width + x) + c : (c * height + y) * width + x;
                result[index] = element_of(table, channel, value);
            }
        }
    }
    return result;
}

// Bit by bit: floats compare equal with different zeros.
template <typename T>
bool is_same(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
void check_convert(const StripImageView& source, ConvertJob job, const std::vector<T>& table,
                   const Normalization* normalizations = nullptr) {
    job.element_size_bytes = sizeof(T);
    job.table = table.empty() ? nullptr : table.data();
    job.normalizations = normalizations;
    const std::vector<T> expected = expected_elements(source, job, table);
    TightImage rows(source);
    for_each_kernel_table([&](const KernelTable& kernels) {
        std::vector<T> from_strips(expected.size(), static_cast<T>(0x5A));
        kernels.convert_strips(source, job, from_strips.data());
        CHECK(is_same(from_strips, expected));
        std::vector<T> from_rows(expected.size(), static_cast<T>(0x5A));
        kernels.convert_rows(rows.view(), job, from_rows.data());
        CHECK(is_same(from_rows, expected));
    });
}

// 256 columns of 8 rows: in each plane and row every byte.
class EveryByte {
  public:
    EveryByte() {
        for (int i = 0; i < 256 * 8; ++i) bytes_.push_back(static_cast<std::uint8_t>(i / 8 + 31 * (i % 8)));
    }
    StripImageView view() const { return {{bytes_.data(), bytes_.data(), bytes_.data()}, 256 * 8, 0, 0, 256, 8}; }

  private:
    std::vector<std::uint8_t> bytes_;
};

void check_normalized(const StripImageView& source, const ConvertJob& job) {
    const std::vector<float> table = normalized_table({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F});
    const auto found = find_normalizations(table.data());
    CHECK(found.has_value());
    if (found.has_value()) check_convert(source, job, table, found->channels);
}

void check_all_elements(const StripImageView& source, const ConvertJob& job) {
    check_normalized(source, job);
    check_convert<std::uint8_t>(source, job, {});
    check_convert(source, job, make_table<std::uint8_t>());
    check_convert(source, job, make_table<std::uint16_t>());
    check_convert(source, job, make_table<std::uint32_t>());
    check_convert(source, job, make_table<std::uint64_t>());
}

void check_all_layouts(const StripImageView& source, ConvertJob job) {
    for (const bool is_mirrored : {false, true}) {
        for (const bool is_channels_last : {false, true}) {
            job.is_mirrored = is_mirrored;
            job.is_channels_last = is_channels_last;
            check_all_elements(source, job);
        }
    }
}

}  // namespace

TEST_CASE(convert_writes_every_layout_at_sizes_around_its_tiles) {
    std::uint32_t seed = 0;
    for (const std::int32_t width : {1, 2, 7, 8, 9, 16, 31, 32, 33, 63, 64, 65, 130, 257}) {
        for (const std::int32_t height : {1, 7, 8, 9}) {
            const StripImage image(width, height, ++seed);
            ConvertJob job;
            job.width = width;
            job.height = height;
            check_all_layouts(image.view(), job);
        }
    }
}

TEST_CASE(convert_reads_windows_at_any_offset) {
    const StripImage image(90, 30, 7);
    for (std::int32_t offset = 0; offset < 9; ++offset) {
        ConvertJob job;
        job.width = 70 + offset;
        job.height = 20 - offset;
        const StripImageView window = image.view().crop({offset, 10 - offset, job.width, job.height});
        const ReadableWindow only(window, {90, 30});
        check_all_layouts(window, job);
    }
}

TEST_CASE(convert_pads_with_the_entry_of_zero) {
    const StripImage image(20, 11, 9);
    ConvertJob job;
    job.width = 29;
    job.height = 15;
    for (const std::int32_t left : {0, 4, 9}) {
        for (const std::int32_t top : {0, 2, 4}) {
            job.left = left;
            job.top = top;
            check_all_layouts(image.view(), job);
        }
    }
}

// Checks how every kernel computes a fraction of 255, for every byte, at the scales with the largest and smallest
// numbers.
TEST_CASE(normalizations_give_every_entry_in_every_kernel) {
    const EveryByte image;
    const float means[][3] = {{0.485F, 0.456F, 0.406F}, {0.0F, 0.0F, 0.0F}, {-3.5F, 0.25F, 9.0F}};
    const float stds[][3] = {{0.229F, 0.224F, 0.225F}, {1.0F, 2e-6F, 9e5F}, {-0.25F, 4.0F, 0.5F}};
    for (std::size_t i = 0; i < std::size(means); ++i) {
        const std::vector<float> table = normalized_table(means[i], stds[i]);
        const auto found = find_normalizations(table.data());
        CHECK(found.has_value());
        if (!found.has_value()) continue;
        for (const bool is_mirrored : {false, true}) {
            ConvertJob job;
            job.width = 256;
            job.height = 8;
            job.is_mirrored = is_mirrored;
            check_convert(image.view(), job, table, found->channels);
        }
    }
}

// Numbers near the ends of float32 would not be the same in other units.
TEST_CASE(normalizations_are_not_found_for_extreme_deviations_and_means) {
    for (const float extreme : {1e-7F, 1e7F}) {
        const std::vector<float> table = normalized_table({0.5F, 0.5F, 0.5F}, {1.0F, 1.0F, extreme});
        CHECK(!find_normalizations(table.data()).has_value());
    }
}

TEST_CASE(normalizations_are_not_found_where_one_bit_differs) {
    const std::vector<float> table = normalized_table({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F});
    for (const std::size_t entry : {0U, 17U, 255U, 256U, 500U, 767U}) {
        std::vector<float> other = table;
        other[entry] = std::nextafter(other[entry], 10.0F);
        CHECK(!find_normalizations(other.data()).has_value());
    }
    CHECK(!find_normalizations(std::vector<float>(768, 0.25F).data()).has_value());
    CHECK(!find_normalizations(std::vector<float>(768, NAN).data()).has_value());
    std::vector<float> curved;
    for (int i = 0; i < 768; ++i) curved.push_back(std::sqrt(static_cast<float>(i % 256)));
    CHECK(!find_normalizations(curved.data()).has_value());
}

}  // namespace fastload
