#include "codec/jpeg/record_reader.h"

#include "check.h"
#include "coefficient_records.h"
#include "engine/cache/record_kinds.h"
#include "failing_allocation.h"
#include "jpeg_bytes.h"
#include "kernels/dispatch.h"
#include "small_picture.h"
#include "test_images.h"

namespace fastload {
namespace {

using namespace testing;

constexpr ByteSpan kFile = {kSmallPicture, sizeof(kSmallPicture)};
constexpr ImageSize kSize = {272, 80};
constexpr Region kWhole = {0, 0, kSize.width, kSize.height};
constexpr Region kCrop = {100, 30, 90, 12};
constexpr jpeg::ReadPart kParts[] = {jpeg::ReadPart::kNeeded, jpeg::ReadPart::kAll};

// A grey image 8 pixels wide with two bits for each block: a long table before few coefficients.
Bytes tall_file(int height) {
    const Bytes data(static_cast<std::size_t>(height / 8 * 2 / 8), 0);
    return joined(
        {kSoi, dqt(0, 1), sof(0xC0, 8, height, {{1, 0x11, 0}}), dht(0x00, 0), dht(0x10, 0), sos({1}), data, kEoi});
}

}  // namespace

TEST_CASE(coefficient_record_is_the_same_by_all_kernels_and_gives_the_pixels_of_the_file) {
    const Bytes record = record_of(**runnable_kernel_tables().begin(), kFile);
    for (const KernelTable* kernels : runnable_kernel_tables()) {
        CHECK(record_of(*kernels, kFile) == record);
        const auto file = std::make_unique<JpegDecoder>(*kernels, DecodeLimits{});
        RecordDecoder decoder(*kernels);
        ImageInfo info;
        CHECK(file->read_header(kFile, &info).is_ok());
        std::mt19937 random(1);
        for (int i = 0; i < 300; ++i) {
            const Region region = i == 0 ? kWhole : any_region(kSize, random);
            StripImageView plain;
            StripImageView recorded;
            CHECK(file->decode(region, &plain).is_ok());
            CHECK(decoder.decode(record, region, &recorded).is_ok());
            CHECK(is_same_view(recorded, plain));
        }
    }
}

// If you change the contents of a record, raise kCoefficientRevision and update this hash.
TEST_CASE(coefficient_record_of_revision_1_is_as_it_was) {
    CHECK_EQUAL(kCoefficientRevision, 1U);
    const Bytes record = record_of(**runnable_kernel_tables().begin(), kFile);
    CHECK_EQUAL(record.size(), 3797U);
    CHECK_EQUAL(content_hash(record_key(), span_of(record)).low, 2136097392127066876U);
}

TEST_CASE(coefficient_record_of_a_crop_is_read_without_other_rows) {
    const KernelTable& kernels = **runnable_kernel_tables().begin();
    const Bytes record = record_of(kernels, kFile);
    const auto reader = std::make_unique<jpeg::RecordReader>();
    VectorBytes bytes(record);
    CHECK(reader->open(&bytes, record_key(), kSalt, DecodeLimits{}).is_ok());
    CHECK(bytes.bytes_read <= jpeg::RecordReader::kFirstBytes);
    const std::uint64_t of_head = bytes.bytes_read;
    CHECK(reader->read_rows(&bytes, record_key(), kCrop).is_ok());
    // Rows 1 and 2 of 5: the chroma filter also reads a sample on each side.
    CHECK_EQUAL(reader->rows().first, 1);
    CHECK_EQUAL(reader->rows().end, 3);
    CHECK_EQUAL(bytes.bytes_read - of_head, reader->rows().bytes);
    CHECK(reader->rows().bytes < record.size() / 2);
    bytes.is_broken = true;
    CHECK(reader->read_rows(&bytes, record_key(), kCrop).code == StatusCode::kReadFailed);
    CHECK(reader->open(&bytes, record_key(), kSalt, DecodeLimits{}).code == StatusCode::kReadFailed);
}

TEST_CASE(coefficient_record_that_was_read_at_once_is_not_read_again) {
    const Bytes record = record_of(**runnable_kernel_tables().begin(), kFile);
    const auto reader = std::make_unique<jpeg::RecordReader>();
    VectorBytes bytes(record);
    CHECK(reader->open(&bytes, record_key(), kSalt, DecodeLimits{}, jpeg::ReadPart::kAll).is_ok());
    CHECK_EQUAL(bytes.bytes_read, record.size());
    CHECK_EQUAL(reader->bytes_ahead(), record.size());
    bytes.is_broken = true;
    CHECK(reader->read_rows(&bytes, record_key(), kCrop).is_ok());
    CHECK(reader->read_rows(&bytes, record_key(), kWhole).is_ok());
    CHECK(reader->open(&bytes, record_key(), kSalt, DecodeLimits{}, jpeg::ReadPart::kAll).code ==
          StatusCode::kReadFailed);
    bytes.is_broken = false;
    CHECK(reader->open(&bytes, record_key(), kSalt, DecodeLimits{}).is_ok());
    CHECK_EQUAL(reader->bytes_ahead(), 0U);
    const std::uint64_t before_rows = bytes.bytes_read;
    CHECK(reader->read_rows(&bytes, record_key(), kCrop).is_ok());
    CHECK_EQUAL(bytes.bytes_read - before_rows, reader->rows().bytes);
}

TEST_CASE(coefficient_record_with_a_long_table_takes_a_second_read) {
    const KernelTable& kernels = **runnable_kernel_tables().begin();
    const Bytes file = tall_file(8000);
    const Bytes record = record_of(kernels, span_of(file));
    for (const jpeg::ReadPart part : kParts) {
        RecordDecoder decoder(kernels, part);
        StripImageView view;
        CHECK(decoder.decode(record, {0, 7990, 8, 10}, &view).is_ok());
        CHECK_EQUAL(view.at(0, 7, 9), 128);
        CHECK_EQUAL(decoder.reader().rows().first, 998);
        CHECK_EQUAL(decoder.reader().rows().end, 1000);
        CHECK(decoder.reader().rows().offset > jpeg::RecordReader::kFirstBytes);
    }
}

TEST_CASE(coefficient_record_is_refused_for_every_changed_byte_of_its_head_and_every_cut) {
    const KernelTable& kernels = **runnable_kernel_tables().begin();
    const Bytes record = record_of(kernels, kFile);
    for (const jpeg::ReadPart part : kParts) {
        RecordDecoder decoder(kernels, part);
        StripImageView view;
        CHECK(decoder.decode(record, kWhole, &view).is_ok());
        const std::size_t head_bytes = decoder.reader().rows().offset;
        for (std::size_t at = 0; at < head_bytes; ++at) {
            Bytes changed = record;
            changed[at] ^= 0x10;
            CHECK(is_for_fallback(decoder.decode(changed, kCrop, &view).code));
        }
        for (std::size_t at = head_bytes; at < record.size(); at += 7) {
            Bytes changed = record;
            changed[at] ^= 0x10;
            CHECK(decoder.decode(changed, kWhole, &view).code == StatusCode::kIrregular);
        }
        for (std::size_t size = 0; size < record.size(); size += 3) {
            const Bytes cut(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(size));
            CHECK(decoder.decode(cut, kWhole, &view).code == StatusCode::kIrregular);
        }
    }
}

TEST_CASE(coefficient_record_of_another_key_or_salt_is_refused) {
    const Bytes record = record_of(**runnable_kernel_tables().begin(), kFile);
    const auto reader = std::make_unique<jpeg::RecordReader>();
    VectorBytes bytes(record);
    HashKey other = record_key();
    other.words[3] ^= 1;
    CHECK(reader->open(&bytes, record_key(), kSalt + 1, DecodeLimits{}).code == StatusCode::kIrregular);
    CHECK(reader->open(&bytes, other, kSalt, DecodeLimits{}).code == StatusCode::kIrregular);
    DecodeLimits limits;
    limits.max_pixels = 272 * 80 - 1;
    CHECK(reader->open(&bytes, record_key(), kSalt, limits).code == StatusCode::kLimitExceeded);
}

TEST_CASE(coefficient_writer_survives_every_failed_allocation) {
    const KernelTable& kernels = **runnable_kernel_tables().begin();
    for (std::int64_t n = 1;; ++n) {
        const auto decoder = std::make_unique<JpegDecoder>(kernels, DecodeLimits{});
        jpeg::CoefficientWriter writer(kernels);
        ImageInfo info;
        CHECK(decoder->read_header(kFile, &info).is_ok());
        Status status;
        bool has_failed = false;
        {
            const FailingAllocation failing(n, true);
            status = decoder->read_coefficients(&writer);
            has_failed = FailingAllocation::has_failed();
        }
        CHECK(status.code == (has_failed ? StatusCode::kOutOfMemory : StatusCode::kOk));
        CHECK(decoder->read_coefficients(&writer).is_ok());
        if (!has_failed) break;
    }
}

TEST_CASE(coefficient_writer_reuses_its_memory) {
    const KernelTable& kernels = **runnable_kernel_tables().begin();
    const auto decoder = std::make_unique<JpegDecoder>(kernels, DecodeLimits{});
    jpeg::CoefficientWriter writer(kernels);
    ImageInfo info;
    std::size_t bytes = 0;
    for (int i = 0; i < 3; ++i) {
        CHECK(decoder->read_header(kFile, &info).is_ok());
        CHECK(decoder->read_coefficients(&writer).is_ok());
        if (i != 0) CHECK_EQUAL(decoder->scratch_bytes() + writer.scratch_bytes(), bytes);
        bytes = decoder->scratch_bytes() + writer.scratch_bytes();
    }
    CHECK(bytes < 500'000);
}

}  // namespace fastload
