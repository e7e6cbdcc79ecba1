#include "engine/sample/indexed_decode.h"

#include <iterator>

#include "check.h"
#include "kernels/dispatch.h"
#include "small_picture.h"
#include "table_records.h"
#include "test_images.h"

namespace fastload {
namespace {

using namespace testing;

constexpr Region kWhole = {0, 0, 272, 80};
constexpr Region kCrop = {100, 30, 90, 40};

struct Seen {
    Status status;
    Bytes pixels;
};

Bytes small_picture() { return {std::begin(testing::kSmallPicture), std::end(testing::kSmallPicture)}; }

class Decoding {
  public:
    explicit Decoding(bool has_cache = true) {
        std::mt19937_64 random(1);
        for (std::uint64_t& word : key_.words) word = random();
        if (has_cache) cache_ = std::make_shared<DecodeCache>(key_, testing::borrowed(&table_), 10);
        indexed_ = std::make_unique<IndexedDecode>(cache_);
    }
    Seen decode(const Bytes& file, const Region& region) {
        ImageInfo info;
        StripImageView view;
        SampleTimings timings;
        Seen seen;
        seen.status = decoder_->read_header({file.data(), file.size()}, &info);
        CHECK(seen.status.is_ok());
        seen.status = indexed_->decode(*decoder_, {file.data(), file.size()}, region, &view, &timings);
        if (seen.status.is_ok()) seen.pixels = testing::pixels_of(view);
        return seen;
    }
    CacheCounters counters() const { return cache_->counters(); }
    std::size_t records() const { return table_.counts().records; }
    // Keeps an index of which each position but the last is one bit too far.
    void keep_wrong_index(const Bytes& file) {
        jpeg::ScanShape shape;
        jpeg::EntropyIndex whole;
        ImageInfo info;
        StripImageView view;
        CHECK(decoder_->read_header({file.data(), file.size()}, &info).is_ok() && decoder_->scan_shape(&shape));
        CHECK(whole.begin(shape, jpeg::IndexLevel::kDense).is_ok());
        CHECK(decoder_->decode(kWhole, &whole, &view).is_ok() && whole.is_complete());
        jpeg::EntropyIndex wrong;
        CHECK(wrong.begin(shape, whole.level()).is_ok() && wrong.accepts(whole.data_bytes()));
        for (std::size_t i = 0; i < whole.size(); ++i) {
            jpeg::Checkpoint checkpoint = whole[i];
            if (i + 1 < whole.size()) ++checkpoint.position_bits;
            wrong.append(checkpoint);
        }
        Bytes buffer(DecodeCache::kMaxRecordBytes);
        cache_->keep(cache_->key_of({file.data(), file.size()}), wrong, {buffer.data(), buffer.size()});
    }

  private:
    HashKey key_ = {};
    IndexTable table_{kNoBound};
    std::shared_ptr<DecodeCache> cache_;
    std::unique_ptr<IndexedDecode> indexed_;
    std::unique_ptr<JpegDecoder> decoder_ = std::make_unique<JpegDecoder>(*select_kernel_table(), DecodeLimits{});
};

Seen decode_plainly(const Bytes& file, const Region& region) { return Decoding(false).decode(file, region); }

// The picture with one changed byte in its data: a file with other pixels, or one with a fault.
Bytes changed_picture(bool is_decoded) {
    const Bytes pixels = decode_plainly(small_picture(), kCrop).pixels;
    for (std::size_t at = small_picture().size() / 2;; ++at) {
        Bytes file = small_picture();
        file[at] ^= 0x24;
        const Seen seen = decode_plainly(file, kCrop);
        const bool is_wanted =
            is_decoded ? !seen.pixels.empty() && seen.pixels != pixels && decode_plainly(file, kWhole).status.is_ok()
                       : !seen.status.is_ok();
        if (is_wanted) return file;
    }
}

}  // namespace

TEST_CASE(crop_of_a_file_that_was_decoded_before_is_a_hit) {
    Decoding decoding;
    const Bytes plain = decode_plainly(small_picture(), kCrop).pixels;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        CHECK(decoding.decode(small_picture(), kCrop).pixels == plain);
        CHECK_EQUAL(decoding.counters().misses, 1U);
        CHECK_EQUAL(decoding.counters().hits, epoch);
        CHECK_EQUAL(decoding.records(), 1U);
    }
    // Reaches further than the known rows, whose number grows.
    const Region lower = {100, 60, 90, 20};
    CHECK(decoding.decode(small_picture(), lower).pixels == decode_plainly(small_picture(), lower).pixels);
    CHECK(decoding.decode(changed_picture(true), kCrop).pixels != plain);
    CHECK_EQUAL(decoding.counters().misses, 2U);
    CHECK_EQUAL(decoding.records(), 2U);
    CHECK_EQUAL(decoding.counters().mismatches, 0U);
}

TEST_CASE(image_that_is_wanted_as_a_whole_is_not_looked_for) {
    Decoding decoding;
    CHECK(decoding.decode(small_picture(), kWhole).status.is_ok());
    CHECK_EQUAL(decoding.counters().hits + decoding.counters().misses, 0U);
    CHECK_EQUAL(decoding.records(), 0U);
}

TEST_CASE(index_of_other_data_is_dropped_and_made_anew) {
    Decoding decoding;
    decoding.keep_wrong_index(small_picture());
    const Bytes plain = decode_plainly(small_picture(), kCrop).pixels;
    CHECK(decoding.decode(small_picture(), kCrop).pixels == plain);
    CHECK_EQUAL(decoding.counters().mismatches, 1U);
    CHECK_EQUAL(decoding.records(), 0U);
    for (int epoch = 0; epoch < 2; ++epoch) {
        CHECK(decoding.decode(small_picture(), kCrop).pixels == plain);
        CHECK_EQUAL(decoding.records(), 1U);
    }
    CHECK_EQUAL(decoding.counters().mismatches, 1U);
    CHECK_EQUAL(decoding.counters().hits, 2U);
    CHECK_EQUAL(decoding.counters().misses, 1U);
}

TEST_CASE(file_with_a_fault_has_it_in_every_epoch_and_no_record) {
    Decoding decoding;
    const Bytes file = changed_picture(false);
    const Status plain = decode_plainly(file, kCrop).status;
    for (int epoch = 0; epoch < 3; ++epoch) {
        const Status status = decoding.decode(file, kCrop).status;
        CHECK(status.code == plain.code && status.detail == plain.detail);
        CHECK_EQUAL(decoding.records(), 0U);
    }
    // Above it nothing is wrong, and the known rows there do not hide the fault.
    const Region above = {100, 0, 90, 30};
    CHECK(decoding.decode(file, above).status.is_ok());
    CHECK_EQUAL(decoding.records(), 1U);
    CHECK(decoding.decode(file, kCrop).status.code == plain.code);
    CHECK_EQUAL(decoding.counters().mismatches, 0U);
    CHECK_EQUAL(decoding.records(), 1U);
}

}  // namespace fastload
