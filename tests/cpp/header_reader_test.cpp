#include "engine/sample/header_reader.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "check.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "jpeg_bytes.h"
#include "kernels/dispatch.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using namespace testing;

std::string characters_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

// A grey image of 16 x 16 behind `num_bytes` of metadata, in segments of 60 KB.
Bytes with_metadata(std::size_t num_bytes) {
    Bytes file = kSoi;
    while (num_bytes > 0) {
        const std::size_t size = std::min<std::size_t>(num_bytes, 60000);
        append(segment(0xEF, Bytes(size, 0x55)), &file);
        num_bytes -= size;
    }
    const Bytes image = small_gray_file();
    append({image.begin() + 2, image.end()}, &file);
    return file;
}

}  // namespace

TEST_CASE(a_header_is_what_the_decoder_finds_in_the_whole_file_cut_at_any_length) {
    TemporaryFolder folder;
    HeaderReader reader({});
    const auto decoder = std::make_unique<JpegDecoder>(*select_kernel_table(), DecodeLimits{});
    for (const Bytes& file : {small_gray_file(), small_progressive_file(), with_metadata(300)}) {
        int num_read = 0;
        for (std::size_t length = 0; length <= file.size(); ++length) {
            const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
            ImageInfo expected;
            const Status wanted = decoder->read_header(span_of(cut), &expected);
            ImageSize size;
            const Status status = reader.read_size(bytes_of(folder.write("cut", characters_of(cut))), &size);
            CHECK(status.code == wanted.code);
            CHECK(std::string(status.detail) == wanted.detail);
            CHECK_EQUAL(size.width, expected.size.width);
            CHECK_EQUAL(size.height, expected.size.height);
            num_read += status.is_ok() ? 1 : 0;
        }
        CHECK(num_read >= 3);  // once the scan's header is there
    }
}

TEST_CASE(a_header_is_found_behind_metadata_of_any_length) {
    TemporaryFolder folder;
    HeaderReader reader({});
    for (const std::size_t metadata : {0U, 3700U, 4000U, 4090U, 4096U, 16300U, 65000U, 700000U}) {
        const Bytes file = with_metadata(metadata);
        ImageSize size;
        CHECK(reader.read_size(bytes_of(folder.write("photo", characters_of(file))), &size).is_ok());
        CHECK_EQUAL(size.width, 16);
        CHECK_EQUAL(size.height, 16);
    }
}

TEST_CASE(a_header_that_the_decoder_does_not_take_is_left_to_the_reference_decoder) {
    TemporaryFolder folder;
    ImageSize size;
    const auto verdict = [&](const NativeWorkerOptions& options, const std::string& contents) {
        return HeaderReader(options).read_size(bytes_of(folder.write("file", contents)), &size).code;
    };
    const std::string jpeg = characters_of(small_gray_file());
    CHECK(verdict({}, "") == StatusCode::kUnsupported);
    CHECK(verdict({}, "\x89PNG\r\n\x1A\n") == StatusCode::kUnsupported);
    CHECK(verdict({}, jpeg.substr(0, 60)) == StatusCode::kIrregular);
    NativeWorkerOptions options;
    options.is_native_jpeg_allowed = false;
    CHECK(verdict(options, jpeg) == StatusCode::kUnsupported);
    options = {};
    options.decode_limits.max_pixels = 255;
    CHECK(verdict(options, jpeg) == StatusCode::kLimitExceeded);
    options.decode_limits.max_pixels = 256;
    CHECK(verdict(options, jpeg) == StatusCode::kOk);
    options.max_file_bytes = jpeg.size() - 1;
    CHECK(verdict(options, jpeg) == StatusCode::kFileTooLarge);
    CHECK(HeaderReader({}).read_size(bytes_of("/nonexistent/file"), &size).system_errno == ENOENT);
    CHECK(HeaderReader({}).read_size(bytes_of(folder.path()), &size).code == StatusCode::kNotRegularFile);
}

}  // namespace fastload
