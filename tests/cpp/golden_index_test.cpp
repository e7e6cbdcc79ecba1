// Indexes as earlier versions have written them into stores. Either today's are equal, or the revision was raised, and
// files of another revision are left alone.
#include <cstdio>
#include <iterator>

#include "check.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/cache/record_store.h"
#include "golden_index.h"
#include "kernels/dispatch.h"
#include "small_picture.h"

namespace fastload {
namespace {

using jpeg::EntropyIndex;
using jpeg::IndexLevel;
using Bytes = std::vector<std::uint8_t>;

constexpr ByteSpan kFile = {testing::kSmallPicture, sizeof(testing::kSmallPicture)};
constexpr Region kLastRow = {0, 79, 272, 1};

// The complete index of the picture's data.
Bytes index_of_today(IndexLevel level) {
    const auto decoder = std::make_unique<JpegDecoder>(*select_kernel_table(), DecodeLimits{});
    ImageInfo info;
    jpeg::ScanShape shape;
    EntropyIndex index;
    StripImageView view;
    CHECK(decoder->read_header(kFile, &info).is_ok() && decoder->scan_shape(&shape));
    CHECK(index.begin(shape, level).is_ok() && decoder->decode(kLastRow, &index, &view).is_ok());
    CHECK(index.is_complete());
    Bytes packed(IndexRecords::kMaxRecordBytes);
    packed.resize(index.pack({packed.data(), packed.size()}));
    return packed;
}

void check_is(const Bytes& packed, ByteSpan golden) {
    CHECK(packed == Bytes(golden.begin(), golden.end()));
    if (packed == Bytes(golden.begin(), golden.end())) return;
    for (const std::uint8_t byte : packed) std::fprintf(stderr, "0x%02x, ", byte);
    std::fprintf(stderr, "\n");
}

}  // namespace

static_assert(kIndexRevision == 2, "keep the records of the new revision in golden_index.h as well");

TEST_CASE(index_of_a_file_is_the_one_its_revision_names) {
    check_is(index_of_today(IndexLevel::kDense),
             {testing::kDenseIndexOfRevision2, sizeof testing::kDenseIndexOfRevision2});
    check_is(index_of_today(IndexLevel::kRows),
             {testing::kRowsIndexOfRevision2, sizeof testing::kRowsIndexOfRevision2});
}

}  // namespace fastload
