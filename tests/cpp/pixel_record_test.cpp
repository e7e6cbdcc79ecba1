#include "image/plan/pixel_record.h"

#include "check.h"
#include "coefficient_records.h"
#include "engine/cache/record_kinds.h"
#include "pixel_records.h"

namespace fastload {
namespace {

using namespace testing;

constexpr std::uint64_t kAnyPixels = std::numeric_limits<std::uint64_t>::max();

RecordStamp stamp() {
    RecordStamp stamp = {};
    for (std::size_t i = 0; i < stamp.size(); ++i) stamp[i] = static_cast<std::uint8_t>(i);
    return stamp;
}

std::vector<std::uint8_t> random_pixels(ImageSize size) {
    std::mt19937 random(static_cast<std::uint32_t>(size.width));
    std::vector<std::uint8_t> pixels(pixel_bytes(size));
    for (std::uint8_t& byte : pixels) byte = static_cast<std::uint8_t>(random() & 255U);
    return pixels;
}

// Makes a record of random pixels.
std::vector<std::uint8_t> record_of(PixelRecordWriter* writer, ImageSize size, ImageSize source_size) {
    const std::vector<std::uint8_t> pixels = random_pixels(size);
    std::uint8_t* const place = writer->begin(size, source_size);
    CHECK(place != nullptr);
    std::memcpy(place, pixels.data(), pixels.size());
    const ByteSpan record = writer->finish(record_key(), kSalt, stamp());
    return {record.begin(), record.end()};
}

Status open(PixelRecordReader* reader, const std::vector<std::uint8_t>& record, std::uint64_t salt = kSalt,
            std::uint64_t max_pixels = kAnyPixels) {
    std::uint8_t* const place = reader->reserve(record.size());
    CHECK(place != nullptr);
    if (!record.empty()) std::memcpy(place, record.data(), record.size());
    return reader->open(record_key(), salt, max_pixels);
}

bool is_irregular(const Status& status) { return status.code == StatusCode::kIrregular; }

}  // namespace

TEST_CASE(pixel_records_give_what_was_written) {
    PixelRecordWriter writer;
    PixelRecordReader reader;
    for (const ImageSize size : {ImageSize{1, 1}, ImageSize{224, 224}, ImageSize{61, 50}, ImageSize{1, 333}}) {
        const ImageSize source_size = {size.width + 5, 77};
        const std::vector<std::uint8_t> record = record_of(&writer, size, source_size);
        CHECK_EQUAL(record.size(), pixel_record_bytes(size));
        CHECK(open(&reader, record).is_ok());
        const PlanarImageView& image = reader.image();
        CHECK_EQUAL(image.width, size.width);
        CHECK_EQUAL(image.height, size.height);
        CHECK_EQUAL(reader.source_size().width, source_size.width);
        CHECK_EQUAL(reader.source_size().height, source_size.height);
        CHECK(reader.stamp() == stamp());
        const std::vector<std::uint8_t> pixels = random_pixels(size);
        const std::size_t plane_bytes = pixels.size() / 3;
        for (std::size_t plane = 0; plane < 3; ++plane) {
            CHECK(std::memcmp(image.planes[plane], pixels.data() + plane * plane_bytes, plane_bytes) == 0);
        }
    }
}

// If you change the contents of a record, raise kPixelRevision and update this hash.
TEST_CASE(pixel_record_of_revision_1_is_as_it_was) {
    CHECK_EQUAL(kPixelRevision, 1U);
    PixelRecordWriter writer;
    const std::vector<std::uint8_t> record = record_of(&writer, {7, 3}, {70, 30});
    CHECK_EQUAL(content_sum(record_key(), {record.data(), record.size()}), 12287207767066344032U);
}

TEST_CASE(a_pixel_record_with_a_changed_byte_is_refused) {
    PixelRecordWriter writer;
    PixelRecordReader reader;
    std::vector<std::uint8_t> record = record_of(&writer, {9, 5}, {90, 50});
    for (std::uint8_t& byte : record) {
        for (const int bit : {1, 128}) {
            byte = static_cast<std::uint8_t>(byte ^ bit);
            CHECK(is_irregular(open(&reader, record)));
            byte = static_cast<std::uint8_t>(byte ^ bit);
        }
    }
    CHECK(open(&reader, record).is_ok());
    CHECK(is_irregular(open(&reader, record, kSalt + 1)));
}

TEST_CASE(a_pixel_record_that_is_cut_or_longer_is_refused) {
    PixelRecordWriter writer;
    PixelRecordReader reader;
    const std::vector<std::uint8_t> record = record_of(&writer, {9, 5}, {90, 50});
    for (std::size_t size = 1; size < record.size(); ++size) {
        CHECK(is_irregular(open(&reader, {record.begin(), record.begin() + static_cast<std::ptrdiff_t>(size)})));
    }
    std::vector<std::uint8_t> longer = record;
    longer.push_back(0);
    CHECK(is_irregular(open(&reader, longer)));
}

TEST_CASE(the_pixel_limit_applies_to_the_image_in_the_file) {
    PixelRecordWriter writer;
    PixelRecordReader reader;
    const std::vector<std::uint8_t> record = record_of(&writer, {9, 5}, {90, 50});
    CHECK(open(&reader, record, kSalt, 4500).is_ok());
    CHECK(open(&reader, record, kSalt, 4499).code == StatusCode::kLimitExceeded);
}

// Anyone with the key can write a head that says anything.
TEST_CASE(impossible_sizes_are_refused_despite_right_checks) {
    PixelRecordWriter writer;
    PixelRecordReader reader;
    const std::vector<std::uint8_t> whole = record_of(&writer, {9, 5}, {90, 50});
    constexpr std::size_t kCheck = 120;
    constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
    for (std::size_t field = 0; field < 4; ++field) {
        for (const std::int32_t value : {0, -1, -kMost, kMost, (1 << 20) + 1, 1 << 20}) {
            std::vector<std::uint8_t> record = whole;
            std::memcpy(record.data() + testing::kPixelSizes + 4 * field, &value, sizeof value);
            const std::uint64_t check = content_sum(record_key(), {record.data(), kCheck}) ^ kSalt;
            std::memcpy(record.data() + kCheck, &check, sizeof check);
            const bool is_possible_source = field < 2 && value == 1 << 20;
            CHECK_EQUAL(open(&reader, record).is_ok(), is_possible_source);
        }
    }
}

TEST_CASE(an_image_that_is_too_large_has_no_pixel_record) {
    PixelRecordWriter writer;
    const ImageSize size = {4096, 4096};
    CHECK(writer.begin(size, size) != nullptr);
    CHECK(writer.finish(record_key(), kSalt, stamp()).is_empty());
}

}  // namespace fastload
