#include "codec/jpeg/jpeg_decoder.h"

#include "check.h"
#include "jpeg_bytes.h"
#include "kernels/dispatch.h"

namespace fastload {
namespace {

using namespace testing;

struct Decoded {
    Status status;
    StripImageView view;
};

class Fixture {
  public:
    Decoded decode(const Bytes& file, Region region = {}) {
        bytes_ = std::make_unique<Bytes>(file);
        Decoded result;
        ImageInfo info;
        result.status = decoder_->read_header(span_of(*bytes_), &info);
        if (!result.status.is_ok()) return result;
        if (region.width == 0) region = {0, 0, info.size.width, info.size.height};
        result.status = decoder_->decode(region, &result.view);
        return result;
    }
    JpegDecoder& decoder() { return *decoder_; }

  private:
    std::unique_ptr<JpegDecoder> decoder_ = std::make_unique<JpegDecoder>(*select_kernel_table(), DecodeLimits{});
    std::unique_ptr<Bytes> bytes_;
};

bool is_uniform(const StripImageView& view, int value) {
    for (std::int32_t y = 0; y < view.height; ++y) {
        for (std::int32_t x = 0; x < view.width; ++x) {
            for (int plane = 0; plane < 3; ++plane) {
                if (view.at(plane, x, y) != value) return false;
            }
        }
    }
    return true;
}

// 4:2:0 in one scan or one scan a component, all mid-grey; two bits a block.
Bytes color_file(int width, int height, bool is_interleaved, const Bytes& restart = {}) {
    const std::vector<FrameFactors> components = {{1, 0x22, 0}, {2, 0x11, 0}, {3, 0x11, 0}};
    Bytes file = joined({kSoi, dqt(0, 1), sof(0xC0, width, height, components), dht(0x00, 0), dht(0x10, 0), restart});
    const auto data_bytes = [](int blocks) { return Bytes(static_cast<std::size_t>((2 * blocks + 7) / 8), 0); };
    const int chroma = ((width + 15) / 16) * ((height + 15) / 16);
    if (is_interleaved) return joined({file, sos({1, 2, 3}), data_bytes(6 * chroma), kEoi});
    const int luma = ((width + 7) / 8) * ((height + 7) / 8);
    return joined({file, sos({1}), data_bytes(luma), sos({2}), data_bytes(chroma), sos({3}), data_bytes(chroma), kEoi});
}

}  // namespace

TEST_CASE(decoder_decodes_a_small_progressive_file) {
    Fixture fixture;
    const Decoded decoded = fixture.decode(small_progressive_file());
    CHECK(decoded.status.is_ok());
    CHECK_EQUAL(decoded.view.width, 16);
    CHECK(is_uniform(decoded.view, 128));
    CHECK(fixture.decode(small_progressive_file(), {9, 2, 3, 4}).status.is_ok());
}

TEST_CASE(decoder_survives_every_truncation) {
    Fixture fixture;
    for (const Bytes& file :
         {small_gray_file(), color_file(40, 40, true), color_file(40, 40, false), small_progressive_file()}) {
        CHECK(fixture.decode(file).status.is_ok());
        for (std::size_t size = 0; size < file.size(); ++size) {
            const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
            const Status status = fixture.decode(cut).status;
            CHECK(is_for_fallback(status.code));
            CHECK(*status.detail != '\0');
            CHECK(status.byte_offset <= size);
        }
    }
}

TEST_CASE(decoder_survives_every_changed_byte) {
    Fixture fixture;
    for (const Bytes& file :
         {small_gray_file(), color_file(40, 24, true), color_file(24, 40, false), small_progressive_file()}) {
        for (std::size_t at = 0; at < file.size(); ++at) {
            for (const int value : {0x00, 0x01, 0x11, 0x7F, 0x80, 0xD0, 0xD9, 0xDA, 0xFF}) {
                Bytes changed = file;
                changed[at] = static_cast<std::uint8_t>(value);
                const Status status = fixture.decode(changed).status;
                CHECK(status.is_ok() || is_for_fallback(status.code));
            }
        }
    }
}

TEST_CASE(decoder_ignores_bytes_after_eoi) {
    Fixture fixture;
    CHECK(fixture.decode(joined({small_gray_file(), {1, 2, 3, 0xFF, 0xD8, 0xFF}})).status.is_ok());
}

TEST_CASE(decoder_wants_eoi_as_the_terminator_of_the_last_scan) {
    Fixture fixture;
    Bytes file = small_gray_file();
    file.back() = 0xC4;
    CHECK(fixture.decode(file).status.code == StatusCode::kIrregular);
    file = color_file(40, 40, false);
    file.back() = 0xDA;
    CHECK(fixture.decode(file).status.code == StatusCode::kIrregular);
}

TEST_CASE(decoder_refuses_a_region_outside_and_a_decode_without_header) {
    Fixture fixture;
    StripImageView view;
    CHECK(fixture.decoder().decode({0, 0, 1, 1}, &view).code == StatusCode::kUnsupported);
    CHECK(fixture.decode(small_gray_file(), {8, 8, 9, 8}).status.code == StatusCode::kUnsupported);
    CHECK(fixture.decode(small_gray_file(), {8, 8, 8, 8}).status.is_ok());
}

TEST_CASE(decoder_reads_no_data_below_the_region) {
    Fixture fixture;
    Bytes file = color_file(64, 64, true);
    file[file.size() - 3] = 0xFE;  // the last MCU
    CHECK(fixture.decode(file).status.code == StatusCode::kIrregular);
    CHECK(fixture.decode(file, {10, 3, 20, 20}).status.is_ok());
    CHECK(fixture.decode(file, {10, 30, 20, 34}).status.code == StatusCode::kIrregular);
}

TEST_CASE(decoder_reads_no_last_bits_of_a_progressive_file_below_the_region) {
    Fixture fixture;
    // Like small_progressive_file(), 16 x 32. The last scan has no code for the lower four blocks.
    const Bytes zeros = {0x00};
    const Bytes file = joined({kSoi, dqt(0, 1), sof(0xC2, 16, 32, {{1, 0x11, 0}}), dht(0x00, 0), dht(0x10, 0x20),
                               sos_band({1}, 0, 0, 0x01), zeros, sos_band({1}, 1, 63, 0x01), Bytes{0x03},
                               sos_band({1}, 0, 0, 0x10), zeros, sos_band({1}, 1, 63, 0x10), Bytes{0x1F}, kEoi});
    CHECK(fixture.decode(file).status.code == StatusCode::kIrregular);
    CHECK(fixture.decode(file, {0, 0, 16, 16}).status.is_ok());
    CHECK(fixture.decode(file, {3, 16, 4, 4}).status.code == StatusCode::kIrregular);
}

TEST_CASE(decoder_rejects_a_head_that_no_file_may_have_and_no_other) {
    Fixture fixture;
    const Bytes file = color_file(40, 40, true);
    for (std::size_t size = 3; size <= file.size(); ++size) {
        CHECK(!fixture.decoder().rejects_head(ByteSpan(file.data(), size)));
    }
    const Bytes zeros(1024, 0);
    CHECK(fixture.decoder().rejects_head(ByteSpan(zeros.data(), zeros.size())));
    const Bytes arithmetic = joined({kSoi, sof(0xC9, 16, 16, {{1, 0x11, 0}})});
    CHECK(fixture.decoder().rejects_head(ByteSpan(arithmetic.data(), arithmetic.size())));
    const Bytes large = joined({kSoi, sof(0xC0, 60000, 60000, {{1, 0x11, 0}})});
    CHECK(fixture.decoder().rejects_head(ByteSpan(large.data(), large.size())));
}

TEST_CASE(decoder_reuses_its_memory) {
    Fixture fixture;
    CHECK(fixture.decode(color_file(200, 200, true)).status.is_ok());
    const std::size_t grown = fixture.decoder().scratch_bytes();
    for (const bool is_interleaved : {true, false}) {
        CHECK(fixture.decode(color_file(180, 190, is_interleaved)).status.is_ok());
    }
    CHECK_EQUAL(fixture.decoder().scratch_bytes(), grown);
}

TEST_CASE(decoder_refuses_a_large_frame_with_little_data_before_it_takes_memory) {
    for (const bool is_progressive : {false, true}) {
        Fixture fixture;
        const std::size_t before = fixture.decoder().scratch_bytes();
        Bytes file = is_progressive ? small_progressive_file() : small_gray_file();
        const auto code = static_cast<std::uint8_t>(is_progressive ? 0xC2 : 0xC0);
        const Bytes frame = sof(code, 16, 16, {{1, 0x11, 0}});
        const Bytes large = sof(code, 9000, 9000, {{1, 0x11, 0}});
        std::copy(large.begin(), large.end(), std::search(file.begin(), file.end(), frame.begin(), frame.end()));
        CHECK(fixture.decode(file).status.code == StatusCode::kIrregular);
        CHECK(fixture.decoder().scratch_bytes() < before + 100'000);
    }
}

TEST_CASE(decoder_wants_exactly_the_restart_markers_of_the_frame) {
    Fixture fixture;
    const auto file = [](const Bytes& data) {
        return joined({kSoi, dqt(0, 1), sof(0xC0, 16, 16, {{1, 0x11, 0}}), dht(0x00, 0), dht(0x10, 0),
                       segment(0xDD, {0, 2}), sos({1}), data, kEoi});
    };
    CHECK(fixture.decode(file({0x0F, 0xFF, 0xD0, 0x0F})).status.is_ok());
    CHECK(!fixture.decode(file({0x0F, 0x0F})).status.is_ok());
    CHECK(!fixture.decode(file({0x0F, 0xFF, 0xD1, 0x0F})).status.is_ok());
    CHECK(!fixture.decode(file({0x0F, 0xFF, 0xD0, 0x0F, 0xFF, 0xD1})).status.is_ok());
    CHECK(!fixture.decode(file({0x0F, 0xFF, 0xD0, 0x0F, 0xFF, 0xD1, 0x0F})).status.is_ok());
    CHECK(!fixture.decode(file({0x0F, 0x00, 0xFF, 0xD0, 0x0F})).status.is_ok());  // a byte too many before it
    CHECK(!fixture.decode(file({0x0F, 0xFF, 0xD0})).status.is_ok());
    // A segment above the region is not read.
    CHECK(fixture.decode(file({0x0F, 0x00, 0xFF, 0xD0, 0x0F}), {0, 8, 16, 8}).status.is_ok());
}

TEST_CASE(decoder_counts_only_the_region_against_the_limit_of_coefficients) {
    DecodeLimits limits;
    limits.max_coefficient_bytes = 3 * 128 + 4 * 8;  // three of the four blocks, and the masks of all
    const auto decoder = std::make_unique<JpegDecoder>(*select_kernel_table(), limits);
    const Bytes file = small_progressive_file();
    ImageInfo info;
    StripImageView view;
    CHECK(decoder->read_header(span_of(file), &info).is_ok());
    CHECK(decoder->decode({0, 0, 16, 16}, &view).code == StatusCode::kLimitExceeded);
    CHECK(decoder->decode({0, 0, 8, 16}, &view).is_ok());
}

TEST_CASE(decoder_wants_runs_of_blocks_to_end_with_their_segment) {
    Fixture fixture;
    Bytes file = small_progressive_file();
    const Bytes run_of_four = joined({sos_band({1}, 1, 63, 0x10), {0x1F}});
    const auto found = std::search(file.begin(), file.end(), run_of_four.begin(), run_of_four.end());
    CHECK(found != file.end());
    *(found + static_cast<std::ptrdiff_t>(run_of_four.size()) - 1) = 0x3F;  // 4 + 1 blocks
    CHECK(fixture.decode(file).status.code == StatusCode::kIrregular);
}

}  // namespace fastload
