#include "codec/jpeg/indexed_walk.h"

#include <iterator>

#include "check.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "kernels/dispatch.h"
#include "small_picture.h"
#include "test_images.h"

namespace fastload {
namespace {

using jpeg::EntropyIndex;
using jpeg::IndexLevel;
using Bytes = std::vector<std::uint8_t>;

constexpr std::int32_t kMcuHeight = 16;
constexpr std::int32_t kMcuRows = 5;
constexpr std::size_t kScanBegin = sizeof(testing::kSmallPicture) * 2 / 5;  // at the latest

// The picture as if its data had ended after `size` bytes of the file.
Bytes cut_picture(std::size_t size) {
    Bytes file(std::begin(testing::kSmallPicture), std::begin(testing::kSmallPicture) + size);
    if (file.back() == 0xFF) file.back() = 0;  // else it would begin a marker
    file.insert(file.end(), {0xFF, 0xD9});
    return file;
}

// The picture with bytes that nothing needs at the end of its data.
Bytes longer_picture() {
    Bytes file(std::begin(testing::kSmallPicture), std::end(testing::kSmallPicture) - 2);
    file.insert(file.end(), {1, 2, 0xFF, 0xD9});
    return file;
}

class FileDecoder {
  public:
    explicit FileDecoder(const Bytes& file) : file_(file) {
        ImageInfo info;
        CHECK(decoder_->read_header({file_.data(), file_.size()}, &info).is_ok() && decoder_->scan_shape(&shape_));
    }
    // The rows of MCUs [begin, end).
    Status decode(std::int32_t begin, std::int32_t end, EntropyIndex* index) {
        StripImageView view;
        return decoder_->decode({100, begin * kMcuHeight, 100, (end - begin) * kMcuHeight}, index, &view);
    }
    EntropyIndex index(IndexLevel level) const {
        EntropyIndex begun;
        CHECK(begun.begin(shape_, level).is_ok());
        return begun;
    }
    // The pixels in the middle of one row of MCUs, which depends on no other row; none if there is a fault.
    Bytes pixels_of_row(std::int32_t row, EntropyIndex* index) {
        StripImageView view;
        const bool is_ok = decoder_->decode({100, row * kMcuHeight + 4, 100, 8}, index, &view).is_ok();
        return is_ok ? testing::pixels_of(view) : Bytes();
    }
    bool was_index_wrong() const { return decoder_->was_index_wrong(); }

  private:
    Bytes file_;
    std::unique_ptr<JpegDecoder> decoder_ = std::make_unique<JpegDecoder>(*select_kernel_table(), DecodeLimits{});
    jpeg::ScanShape shape_;
};

Bytes whole_picture() { return {std::begin(testing::kSmallPicture), std::end(testing::kSmallPicture)}; }

}  // namespace

// A decode with a fault has passed more bits than the data hold; the bits after the data are zeros.
TEST_CASE(index_of_data_that_end_early_or_late_hides_no_fault) {
    int faults = 0;
    for (const IndexLevel level : {IndexLevel::kRows, IndexLevel::kDense}) {
        for (std::size_t size = kScanBegin; size < sizeof(testing::kSmallPicture) - 1; size += 5) {
            testing::current_variant() = "cut to " + std::to_string(size);
            const bool is_cut = size < sizeof(testing::kSmallPicture) - 2;
            FileDecoder decoder(is_cut ? cut_picture(size) : longer_picture());
            EntropyIndex index = decoder.index(level);
            for (std::int32_t round = 0; round < 2; ++round) {
                for (std::int32_t begin = kMcuRows - 1; begin >= 0; --begin) {
                    for (std::int32_t end = kMcuRows; end > begin; --end) {
                        const Status plain = decoder.decode(begin, end, nullptr);
                        const Status status = decoder.decode(begin, end, &index);
                        CHECK(status.code == plain.code && std::strcmp(status.detail, plain.detail) == 0);
                        CHECK(!decoder.was_index_wrong());
                        faults += plain.is_ok() ? 0 : 1;
                    }
                }
            }
            for (std::size_t i = 0; i < index.size(); ++i) {
                CHECK(index[i].position_bits <= index.data_bytes() * 8);
            }
        }
    }
    CHECK(faults > 1000);
}

// After the last known checkpoint nothing could show that it is wrong, so decoding never begins there.
TEST_CASE(row_that_is_decoded_with_one_wrong_prediction_has_the_pixels_without) {
    FileDecoder decoder(whole_picture());
    std::vector<Bytes> plain;
    for (std::int32_t row = 0; row < kMcuRows; ++row) plain.push_back(decoder.pixels_of_row(row, nullptr));
    int noticed = 0;
    for (const IndexLevel level : {IndexLevel::kRows, IndexLevel::kDense}) {
        EntropyIndex whole = decoder.index(level);
        CHECK(decoder.decode(0, kMcuRows, &whole).is_ok() && whole.is_complete());
        for (std::uint32_t rows = 1; rows <= kMcuRows; ++rows) {
            for (std::size_t wrong = 0; wrong < whole.rule().count_in_rows(rows); ++wrong) {
                for (std::int32_t row = 0; row < kMcuRows; ++row) {
                    EntropyIndex index = decoder.index(level);
                    CHECK(index.accepts(whole.data_bytes()));
                    for (std::size_t i = 0; i < whole.rule().count_in_rows(rows); ++i) {
                        jpeg::Checkpoint checkpoint = whole[i];
                        if (i == wrong) ++checkpoint.predictions[1];
                        index.append(checkpoint);
                    }
                    CHECK(decoder.pixels_of_row(row, &index) == plain[static_cast<std::size_t>(row)]);
                    noticed += decoder.was_index_wrong() ? 1 : 0;
                    CHECK_EQUAL(decoder.was_index_wrong(), index.size() == 0);
                }
            }
        }
    }
    CHECK(noticed > 60);
}

// Its positions lie in the data that it names, but not in these data.
TEST_CASE(index_of_more_data_than_there_are_is_wrong_before_it_is_used) {
    FileDecoder decoder(whole_picture());
    const Bytes plain = decoder.pixels_of_row(3, nullptr);
    for (const IndexLevel level : {IndexLevel::kRows, IndexLevel::kDense}) {
        EntropyIndex index = decoder.index(level);
        CHECK(index.accepts(0xFFFFFFFF));
        jpeg::Checkpoint checkpoint;
        checkpoint.position_bits = std::uint64_t{1} << 34;
        for (std::size_t i = 0; i < index.rule().count(); ++i) {
            ++checkpoint.position_bits;
            index.append(checkpoint);
        }
        CHECK(decoder.pixels_of_row(3, &index) == plain);
        CHECK(decoder.was_index_wrong());
        CHECK_EQUAL(index.size(), 0U);
    }
}

}  // namespace fastload
