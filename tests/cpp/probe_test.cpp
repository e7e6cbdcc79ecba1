#include "codec/probe.h"

#include <cstring>

#include "check.h"
#include "jpeg_bytes.h"

namespace fastload {
namespace {

using testing::Bytes;

struct Sample {
    ImageFormat format;
    int width;
    int height;
    Bytes bytes;
};

std::vector<Sample> samples() {
    using namespace testing;
    const auto bmp = [](Bytes header) { return joined({text("BM", 2), Bytes(12, 0), header}); };
    const auto webp = [](const char* kind, Bytes rest) {
        return joined({text("RIFF\0\0\0\0WEBP", 12), text(kind, 4), Bytes(4, 0), rest});
    };
    return {
        {ImageFormat::kJpeg, 300, 16,
         joined({kSoi, segment(0xE1, Bytes(500, 0xFF)), {0xFF}, sof(0xC2, 300, 16, {{1, 0x11, 0}})})},
        {ImageFormat::kPng, 258, 3, joined({text("\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16), {0, 0, 1, 2, 0, 0, 0, 3}})},
        {ImageFormat::kGif, 0x0203, 0x0405, joined({text("GIF89a", 6), {3, 2, 5, 4}})},
        {ImageFormat::kBmp, 5, 7, bmp({40, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0})},
        {ImageFormat::kBmp, 5, 7, bmp({40, 0, 0, 0, 5, 0, 0, 0, 0xF9, 0xFF, 0xFF, 0xFF})},
        {ImageFormat::kBmp, 5, 7, bmp({12, 0, 0, 0, 5, 0, 7, 0, 1, 0, 24, 0})},
        {ImageFormat::kWebp, 65537, 2, webp("VP8X", {0, 0, 0, 0, 0, 0, 1, 1, 0, 0})},
        {ImageFormat::kWebp, 3, 5, webp("VP8L", {0x2F, 0x02, 0x00, 0x01, 0x00})},
        {ImageFormat::kWebp, 0x102, 4, webp("VP8 ", {0, 0, 0, 0x9D, 0x01, 0x2A, 2, 0x41, 4, 0x80})},
    };
}

}  // namespace

TEST_CASE(probe_reads_format_and_size_and_no_size_if_the_bytes_end_before_it) {
    for (const Sample& sample : samples()) {
        const ImageInfo whole = probe(testing::span_of(sample.bytes));
        CHECK(whole.format == sample.format);
        CHECK(whole.size.width == sample.width && whole.size.height == sample.height);
        for (std::size_t size = 0; size < sample.bytes.size(); ++size) {
            const Bytes exact(sample.bytes.begin(), sample.bytes.begin() + static_cast<std::ptrdiff_t>(size));
            const ImageInfo info = probe(testing::span_of(exact));
            CHECK((info.size.width == 0 && info.size.height == 0) || info.size.width == sample.width);
        }
    }
}

TEST_CASE(probe_knows_tiff_and_unknown_bytes) {
    CHECK(probe(testing::span_of(testing::text("II*\0....", 8))).format == ImageFormat::kTiff);
    CHECK(probe(testing::span_of(testing::text("MM\0*....", 8))).format == ImageFormat::kTiff);
    CHECK(probe(testing::span_of(testing::text("<html>", 6))).format == ImageFormat::kUnknown);
    CHECK(probe({}).format == ImageFormat::kUnknown);
    CHECK(std::strcmp(format_name(ImageFormat::kWebp), "WEBP") == 0);
}

}  // namespace fastload
