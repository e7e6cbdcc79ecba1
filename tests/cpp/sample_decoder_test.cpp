#include "engine/sample/sample_decoder.h"

#include <sys/stat.h>

#include <thread>

#include "check.h"
#include "engine/batch/buffer_pool.h"
#include "failing_allocation.h"
#include "image/steps/crop.h"
#include "jpeg_bytes.h"
#include "kernels/dispatch.h"
#include "plan_steps.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using namespace testing;

// A grey picture of uniform blocks, and its file: every pixel is known without a decoder. A block is one byte of the
// scan: the code "0" for a DC difference of 6 bits, these 6 bits, and the code "0" for EOB. With a table of eights, a
// difference of d is d grey levels.
class BlockPicture {
  public:
    BlockPicture(int width, int height, int first_step = 40) : width_(width), height_(height) {
        Bytes scan;
        int level = 128;
        int step = first_step;
        for (int block = 0; block < blocks_in_a_row() * ((height + 7) / 8); ++block) {
            level += step;
            levels_.push_back(static_cast<std::uint8_t>(level));
            scan.push_back(static_cast<std::uint8_t>((step > 0 ? step : step + 63) << 1));
            step = level > 128 ? -33 - block % 17 : 33 + block % 13;
        }
        const Bytes frame = sof(0xC0, width, height, {{1, 0x11, 0}});
        const Bytes file = joined({kSoi, dqt(0, 8), frame, dht(0x00, 6), dht(0x10, 0), sos({1}), scan, kEoi});
        file_.assign(file.begin(), file.end());
    }
    const std::string& file() const { return file_; }
    std::uint8_t at(int x, int y) const { return levels_[static_cast<std::size_t>(y / 8 * blocks_in_a_row() + x / 8)]; }
    // Interleaved, as another decoder returns it.
    std::vector<std::uint8_t> packed() const {
        std::vector<std::uint8_t> pixels;
        for (int y = 0; y < height_; ++y) {
            for (int x = 0; x < width_; ++x) pixels.insert(pixels.end(), 3, at(x, y));
        }
        return pixels;
    }
    PackedImageView view_of(const std::vector<std::uint8_t>& pixels) const {
        return {pixels.data(), 3 * static_cast<std::size_t>(width_), width_, height_};
    }

  private:
    int blocks_in_a_row() const { return (width_ + 7) / 8; }

    int width_;
    int height_;
    std::vector<std::uint8_t> levels_;
    std::string file_;
};

SampleDecoder make_decoder(const NativeWorkerOptions& options = {}) { return {*select_kernel_table(), options}; }

Status run(SampleDecoder& decoder, const std::string& path, const SampleDecoder::Plan& plan, DecodedSample* result) {
    CounterDraws draws(1, 2, 3);
    return decoder.run(bytes_of(path), {&plan, 1}, &draws, result);
}

std::vector<std::uint8_t> bytes_in(const DecodedSample& result) {
    return {result.bytes.get(), result.bytes.get() + result.size_bytes};
}

// True if a planar result shows the picture from (left, top) on.
bool shows(const DecodedSample& result, const BlockPicture& picture, int left = 0, int top = 0) {
    const auto [width, height] = result.size;
    if (result.size_bytes != static_cast<std::size_t>(3 * width * height)) return false;
    for (int i = 0; i < 3 * width * height; ++i) {
        if (result.bytes[static_cast<std::size_t>(i)] != picture.at(left + i % width, top + i / width % height)) {
            return false;
        }
    }
    return true;
}

}  // namespace

TEST_CASE(decoder_returns_the_decoded_image_of_any_size_without_steps) {
    TemporaryFolder folder;
    SampleDecoder decoder = make_decoder();
    const SampleDecoder::Plan plan = make_plan({});
    for (const auto& [width, height] : {std::pair(24, 16), std::pair(9, 41), std::pair(1, 1), std::pair(200, 7)}) {
        const BlockPicture picture(width, height);
        DecodedSample result;
        CHECK(run(decoder, folder.write("image", picture.file()), plan, &result).is_ok());
        CHECK_EQUAL(result.size.width, width);
        CHECK_EQUAL(result.size.height, height);
        CHECK(shows(result, picture));
    }
}

TEST_CASE(decoder_writes_to_the_callers_row_if_the_sample_fills_it) {
    TemporaryFolder folder;
    const BlockPicture picture(24, 16);
    const std::string path = folder.write("image", picture.file());
    SampleDecoder decoder = make_decoder();
    const SampleDecoder::Plan plan = make_plan({});
    DecodedSample own;
    CHECK(run(decoder, path, plan, &own).is_ok());
    const std::size_t size = own.size_bytes;
    for (const std::size_t place_size : {size - 1, size, size + 1}) {
        std::vector<std::uint8_t> place(place_size, 77);
        DecodedSample result;
        result.place = {place.data(), place.size()};
        CHECK(run(decoder, path, plan, &result).is_ok());
        CHECK(result.is_placed() == (place_size == size));
        if (result.is_placed()) {
            CHECK(place == bytes_in(own));
        } else {
            CHECK(shows(result, picture));
            CHECK(place == std::vector<std::uint8_t>(place_size, 77));
        }
    }
}

TEST_CASE(rows_are_held_by_their_tokens_and_hold_their_memory) {
    constexpr std::size_t kBytes = 3 << 12;
    const auto pool = std::make_shared<BufferPool>(2);
    auto rows = std::make_unique<BatchRows>(pool->allocate(kBytes), 3);
    CHECK_EQUAL(rows->row(0).size(), kBytes / 3);
    CHECK(rows->row(2).data() == rows->row(0).data() + kBytes / 3 * 2);
    auto first = rows->take(0);
    auto last = rows->take(2);
    CHECK(rows->is_held(0) && !rows->is_held(1) && rows->is_held(2));
    CHECK_EQUAL(rows->num_held(), 2U);
    first.reset();
    CHECK(!rows->is_held(0));
    CHECK_EQUAL(rows->num_held(), 1U);
    std::uint8_t* const memory = rows->row(0).data();
    rows.reset();
    const auto other = pool->allocate(kBytes);
    CHECK(other->data() != memory);
    last.reset();
    CHECK(pool->allocate(kBytes)->data() == memory);
}

TEST_CASE(decoder_results_outlive_later_samples_and_the_decoder) {
    TemporaryFolder folder;
    const BlockPicture pictures[] = {{40, 30, 40}, {16, 48, -50}};
    const std::string paths[] = {folder.write("first", pictures[0].file()), folder.write("second", pictures[1].file())};
    const SampleDecoder::Plan plan = make_plan({});
    std::vector<DecodedSample> results(6);
    {
        SampleDecoder decoder = make_decoder();
        for (std::size_t i = 0; i < results.size(); ++i) CHECK(run(decoder, paths[i % 2], plan, &results[i]).is_ok());
    }
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(shows(results[i], pictures[i % 2]));
}

TEST_CASE(decoder_decodes_what_a_crop_needs_and_nothing_moves) {
    TemporaryFolder folder;
    const BlockPicture picture(70, 50);
    SampleDecoder decoder = make_decoder();
    DecodedSample result;
    const SampleDecoder::Plan plan = make_plan({placed(sized<CenterCrop>(22, 14))});
    CHECK(run(decoder, folder.write("image", picture.file()), plan, &result).is_ok());
    CHECK_EQUAL(result.size.width, 22);
    CHECK(shows(result, picture, 24, 18));
}

TEST_CASE(decoder_writes_elements_of_any_size_in_either_order) {
    TemporaryFolder folder;
    const BlockPicture picture(11, 10);
    const std::string path = folder.write("image", picture.file());
    OutputLayout layout;
    layout.element_size_bytes = 2;
    for (std::size_t i = 0; i < 3 * 256; ++i) {
        layout.table.push_back(static_cast<std::uint8_t>(i % 256));
        layout.table.push_back(static_cast<std::uint8_t>(7 * i + i / 256));
    }
    SampleDecoder decoder = make_decoder();
    for (const bool channels_last : {false, true}) {
        layout.channels_last = channels_last;
        DecodedSample result;
        CHECK(run(decoder, path, make_plan({}, layout), &result).is_ok());
        CHECK_EQUAL(result.size_bytes, 2U * 3 * 11 * 10);
        for (std::size_t y = 0; y < 10; ++y) {
            for (std::size_t x = 0; x < 11; ++x) {
                for (std::size_t c = 0; c < 3; ++c) {
                    const std::size_t element = channels_last ? (y * 11 + x) * 3 + c : (c * 10 + y) * 11 + x;
                    const std::size_t value = picture.at(static_cast<int>(x), static_cast<int>(y));
                    const std::uint8_t* const expected = &layout.table[2 * (256 * c + value)];
                    CHECK(std::memcmp(&result.bytes[2 * element], expected, 2) == 0);
                }
            }
        }
    }
}

TEST_CASE(decoder_leaves_a_file_to_the_reference_decoder_and_takes_its_pixels) {
    TemporaryFolder folder;
    const BlockPicture picture(64, 40);
    const std::string& whole = picture.file();
    const std::string path = folder.write("whole", whole);
    NativeWorkerOptions no_jpeg;
    no_jpeg.is_native_jpeg_allowed = false;
    NativeWorkerOptions few_pixels;
    few_pixels.decode_limits.max_pixels = 64 * 40 - 1;
    const struct {
        std::string path;
        NativeWorkerOptions options;
        StatusCode code;
    } cases[] = {
        {folder.write("png", "\x89PNG\r\n\x1a\n and more"), {}, StatusCode::kUnsupported},
        {folder.write("empty", ""), {}, StatusCode::kUnsupported},
        {folder.write("cut", whole.substr(0, whole.size() - 7)), {}, StatusCode::kIrregular},
        {path, no_jpeg, StatusCode::kUnsupported},
        {path, few_pixels, StatusCode::kLimitExceeded},
    };
    const SampleDecoder::Plan plan = make_plan({placed(sized<RandomResizedCrop>(20, 18))});
    DecodedSample expected;
    SampleDecoder native = make_decoder();
    CHECK(run(native, path, plan, &expected).is_ok());
    const std::vector<std::uint8_t> pixels = picture.packed();
    for (const auto& one : cases) {
        SampleDecoder decoder = make_decoder(one.options);
        DecodedSample result;
        const Status status = run(decoder, one.path, plan, &result);
        CHECK_EQUAL(static_cast<int>(status.code), static_cast<int>(one.code));
        CHECK(*status.detail != '\0');
        CounterDraws draws(1, 2, 3);
        CHECK(decoder.run_with_pixels(picture.view_of(pixels), plan, &draws, &result).is_ok());
        CHECK(bytes_in(result) == bytes_in(expected));
    }
}

TEST_CASE(decoder_tells_why_a_file_cannot_be_read_and_goes_on) {
    TemporaryFolder folder;
    const BlockPicture picture(16, 16);
    const std::string good = folder.write("good", picture.file());
    const std::string fifo = folder.name("fifo");
    CHECK(::mkfifo(fifo.c_str(), 0600) == 0);
    NativeWorkerOptions options;
    options.max_file_bytes = picture.file().size();
    SampleDecoder decoder = make_decoder(options);
    const SampleDecoder::Plan plan = make_plan({});
    const struct {
        std::string path;
        StatusCode code;
        int system_errno;
    } cases[] = {
        {folder.path() + "/absent", StatusCode::kOpenFailed, ENOENT},
        {folder.path(), StatusCode::kNotRegularFile, EISDIR},
        {fifo, StatusCode::kNotRegularFile, 0},
        {folder.write("large", picture.file() + "x"), StatusCode::kFileTooLarge, EFBIG},
        {"", StatusCode::kOpenFailed, ENOENT},
    };
    for (const auto& one : cases) {
        DecodedSample result;
        const Status status = run(decoder, one.path, plan, &result);
        CHECK_EQUAL(static_cast<int>(status.code), static_cast<int>(one.code));
        CHECK_EQUAL(status.system_errno, one.system_errno);
        CHECK(result.bytes == nullptr);
        CHECK(run(decoder, good, plan, &result).is_ok());
        CHECK(shows(result, picture));
    }
}

TEST_CASE(decoder_refuses_images_that_the_steps_cannot_be_applied_to) {
    TemporaryFolder folder;
    const BlockPicture picture(16, 16);
    SampleDecoder decoder = make_decoder();
    const SampleDecoder::Plan plan = make_plan({placed(sized<RandomCrop>(17, 8))});
    DecodedSample result;
    CHECK(run(decoder, folder.write("image", picture.file()), plan, &result).code == StatusCode::kInvalidGeometry);
    const std::vector<std::uint8_t> pixels = picture.packed();
    CounterDraws draws(0, 0, 0);
    const Status status = decoder.run_with_pixels(picture.view_of(pixels), plan, &draws, &result);
    CHECK(status.code == StatusCode::kInvalidGeometry);
    CHECK(result.bytes == nullptr);
}

TEST_CASE(a_damaged_image_that_the_steps_cannot_be_applied_to_is_damaged_first) {
    TemporaryFolder folder;
    const BlockPicture picture(64, 40);
    const std::string cut = folder.write("cut", picture.file().substr(0, picture.file().size() - 7));
    SampleDecoder decoder = make_decoder();
    DecodedSample result;
    const Status status = run(decoder, cut, make_plan({placed(sized<RandomCrop>(65, 8))}), &result);
    CHECK(status.code == StatusCode::kIrregular);
    CHECK(result.bytes == nullptr);
}

TEST_CASE(decoder_gives_the_same_for_contents_and_for_their_file) {
    TemporaryFolder folder;
    const BlockPicture picture(33, 18);
    SampleDecoder decoder = make_decoder();
    const SampleDecoder::Plan plan = make_plan({placed(sized<RandomResizedCrop>(20, 18))});
    DecodedSample of_file;
    CHECK(run(decoder, folder.write("image", picture.file()), plan, &of_file).is_ok());
    static_cast<void>(decoder.take_timings());
    for (const std::string& contents : {picture.file(), std::string("not an image"), picture.file()}) {
        CounterDraws draws(1, 2, 3);
        DecodedSample result;
        const Status status = decoder.run_with_contents(bytes_of(contents), {&plan, 1}, &draws, &result);
        CHECK(status.is_ok() == (contents == picture.file()));
        if (status.is_ok()) CHECK(bytes_in(result) == bytes_in(of_file));
    }
    CHECK_EQUAL(decoder.take_timings().bytes_read, 0U);
}

TEST_CASE(decoder_draws_in_the_order_of_samples_and_a_failed_one_can_be_rewound) {
    TemporaryFolder folder;
    const BlockPicture picture(64, 56);
    const std::string whole = folder.write("whole", picture.file());
    const std::string cut = folder.write("cut", picture.file().substr(0, picture.file().size() - 30));
    const SampleDecoder::Plan plan = make_plan({placed(sized<RandomResizedCrop>(24, 24)), flip(0.5, 1)});
    SampleDecoder decoder = make_decoder();
    TorchDraws draws(Mt19937Stream(5), UniformRule{});
    std::vector<DecodedSample> expected(8);
    for (DecodedSample& result : expected) CHECK(decoder.run(bytes_of(whole), {&plan, 1}, &draws, &result).is_ok());
    CHECK(bytes_in(expected[0]) != bytes_in(expected[1]));
    const std::uint32_t next_word = draws.stream().next_uint32();

    TorchDraws again(Mt19937Stream(5), UniformRule{});
    for (const DecodedSample& wanted : expected) {
        const Mt19937Stream before = again.stream();
        DecodedSample result;
        CHECK(is_for_fallback(decoder.run(bytes_of(cut), {&plan, 1}, &again, &result).code));
        again.stream() = before;
        CHECK(decoder.run(bytes_of(whole), {&plan, 1}, &again, &result).is_ok());
        CHECK(bytes_in(result) == bytes_in(wanted));
    }
    CHECK_EQUAL(again.stream().next_uint32(), next_word);
}

TEST_CASE(decoder_takes_one_piece_of_memory_for_each_sample_once_it_is_warm) {
    TemporaryFolder folder;
    const BlockPicture picture(120, 90);
    const std::string path = folder.write("image", picture.file());
    const std::vector<std::uint8_t> pixels = picture.packed();
    const SampleDecoder::Plan plan = make_plan({placed(sized<RandomResizedCrop>(32, 32))});
    SampleDecoder decoder = make_decoder();
    CHECK_EQUAL(decoder.take_timings().bytes_read, 0U);
    const auto run_both = [&](std::uint64_t sample, int* num_ok) {
        for (const bool is_native : {true, false}) {
            CounterDraws draws(0, 0, sample);
            DecodedSample result;
            const Status status = is_native ? decoder.run(bytes_of(path), {&plan, 1}, &draws, &result)
                                            : decoder.run_with_pixels(picture.view_of(pixels), plan, &draws, &result);
            *num_ok += status.is_ok() ? 1 : 0;
        }
    };
    int num_ok = 0;
    for (std::uint64_t sample = 0; sample < 100; ++sample) run_both(sample, &num_ok);
    CHECK_EQUAL(num_ok, 200);
    const std::size_t held = decoder.scratch_bytes();
    for (std::uint64_t sample = 0; sample < 100; ++sample) {
        const FailingAllocation third(3, true);
        run_both(sample, &num_ok);
        CHECK(!FailingAllocation::has_failed());
    }
    CHECK_EQUAL(num_ok, 400);
    CHECK_EQUAL(decoder.scratch_bytes(), held);
    const SampleTimings timings = decoder.take_timings();
    CHECK_EQUAL(timings.bytes_read, 200 * picture.file().size());
    CHECK(timings.read_ns > 0 && timings.header_ns > 0 && timings.decode_ns > 0 && timings.transform_ns > 0);
    CHECK_EQUAL(decoder.take_timings().bytes_read, 0U);
}

TEST_CASE(whichever_allocation_fails_a_decoder_says_so_and_goes_on) {
    TemporaryFolder folder;
    const BlockPicture picture(120, 90);
    const std::string path = folder.write("image", picture.file());
    const std::vector<std::uint8_t> pixels = picture.packed();
    const SampleDecoder::Plan plan = make_plan({placed(sized<RandomResizedCrop>(32, 32))});
    for (const bool is_native : {true, false}) {
        const auto attempt = [&](SampleDecoder& decoder, DecodedSample* result) {
            CounterDraws draws(1, 2, 3);
            return is_native ? decoder.run(bytes_of(path), {&plan, 1}, &draws, result)
                             : decoder.run_with_pixels(picture.view_of(pixels), plan, &draws, result);
        };
        DecodedSample expected;
        SampleDecoder undisturbed = make_decoder();
        CHECK(attempt(undisturbed, &expected).is_ok());
        int num_failed = 0;
        bool has_failed = true;
        for (std::int64_t n = 1; has_failed; ++n) {
            SampleDecoder decoder = make_decoder();
            DecodedSample result;
            Status status;
            {
                const FailingAllocation scope(n, false);
                status = attempt(decoder, &result);
                has_failed = FailingAllocation::has_failed();
            }
            CHECK(status.code == (has_failed ? StatusCode::kOutOfMemory : StatusCode::kOk));
            CHECK(attempt(decoder, &result).is_ok());
            CHECK(bytes_in(result) == bytes_in(expected));
            num_failed += has_failed ? 1 : 0;
        }
        CHECK(num_failed > 3);
    }
}

TEST_CASE(decoders_in_several_threads_share_a_plan) {
    TemporaryFolder folder;
    const BlockPicture picture(96, 80);
    const std::string path = folder.write("image", picture.file());
    const SampleDecoder::Plan plan = make_plan({placed(sized<RandomResizedCrop>(24, 24))});
    const auto make_all = [&](std::vector<DecodedSample>* results) {
        SampleDecoder decoder = make_decoder();
        TorchDraws draws(Mt19937Stream(11), {true, true});
        for (DecodedSample& result : *results) {
            if (!decoder.run(bytes_of(path), {&plan, 1}, &draws, &result).is_ok()) return;
        }
    };
    std::vector<std::vector<DecodedSample>> results(5);
    for (std::vector<DecodedSample>& of_thread : results) of_thread.resize(20);
    make_all(&results[0]);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < results.size(); ++i) threads.emplace_back(make_all, &results[i]);
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<DecodedSample>& of_thread : results) {
        for (std::size_t i = 0; i < of_thread.size(); ++i) {
            CHECK(of_thread[i].bytes != nullptr && bytes_in(of_thread[i]) == bytes_in(results[0][i]));
        }
    }
}

}  // namespace fastload
