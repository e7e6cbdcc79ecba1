// Tools for tests of coefficient records: they make them from files, change them with right sums, and read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "codec/jpeg/coefficient_layout.h"
#include "codec/jpeg/coefficient_writer.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "codec/jpeg/record_reader.h"
#include "kernels/kernel_table.h"

namespace fastload::testing {

constexpr std::uint64_t kSalt = 7;

inline const HashKey& record_key() {
    static const HashKey key = [] {
        HashKey made;
        std::mt19937_64 random(1);
        for (std::uint64_t& word : made.words) word = random();
        return made;
    }();
    return key;
}

// Returns the record of a file, or an empty one if the file has none.
inline std::vector<std::uint8_t> record_of(const KernelTable& kernels, ByteSpan file, const DecodeLimits& limits = {}) {
    const auto decoder = std::make_unique<JpegDecoder>(kernels, limits);
    jpeg::CoefficientWriter writer(kernels);
    ImageInfo info;
    if (!decoder->read_header(file, &info).is_ok() || !decoder->read_coefficients(&writer).is_ok()) return {};
    const ByteSpan record = writer.finish(record_key(), kSalt, {});
    return {record.begin(), record.end()};
}

class VectorBytes final : public jpeg::RecordBytes {
  public:
    explicit VectorBytes(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}
    std::uint64_t size() const noexcept override { return bytes_.size(); }
    bool read(std::uint64_t offset, Span<std::uint8_t> bytes) noexcept override {
        if (is_broken) return false;
        if (!bytes.is_empty()) std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
        bytes_read += bytes.size();
        return true;
    }

    std::uint64_t bytes_read = 0;
    bool is_broken = false;

  private:
    const std::vector<std::uint8_t>& bytes_;
};

// Sets the right sums and check in the head of a record, whatever it says now. Returns false if its table has another
// length than the record has, or does not lie in it.
inline bool put_sums_right(std::vector<std::uint8_t>* record, std::uint64_t salt = kSalt) {
    const ByteSpan bytes(record->data(), record->size());
    std::size_t head_bytes = 0;
    if (!jpeg::RecordReader::find_head_bytes(bytes, DecodeLimits{}, &head_bytes).is_ok() ||
        head_bytes > record->size()) {
        return false;
    }
    constexpr std::size_t kNumber = sizeof(std::uint64_t);
    const auto put_check = [&] {
        const std::size_t at = head_bytes - kNumber;
        const std::uint64_t check = jpeg::coefficient_check(record_key(), salt, bytes.subspan(0, at));
        std::memcpy(record->data() + at, &check, kNumber);
    };
    put_check();
    const auto opened = std::make_unique<jpeg::RecordReader>();
    jpeg::MemoryBytes source(bytes);
    if (!opened->open(&source, record_key(), salt, DecodeLimits{}).is_ok()) return false;
    const jpeg::Frame& frame = opened->frame();
    const jpeg::CoefficientLayout layout(frame);
    for (std::int32_t row = 0; row < frame.mcus_high; ++row) {
        std::uint32_t begin = 0;
        std::uint32_t end = 0;
        std::memcpy(&begin, record->data() + layout.offset(row, 0, 0), sizeof begin);
        std::memcpy(&end, record->data() + layout.offset(row + 1, 0, 0), sizeof end);
        if (begin > end || head_bytes + end > record->size()) continue;
        const std::uint64_t sum = content_hash(record_key(), bytes.subspan(head_bytes + begin, end - begin)).low;
        std::memcpy(record->data() + layout.sum(row), &sum, kNumber);
    }
    put_check();
    return true;
}

// Decodes from records alone, with one set of kernels.
class RecordDecoder {
  public:
    explicit RecordDecoder(const KernelTable& kernels, jpeg::ReadPart part = jpeg::ReadPart::kNeeded)
        : part_(part), decoder_(std::make_unique<JpegDecoder>(kernels, DecodeLimits{})) {}

    // The pixels of `view` stay until the next call.
    Status decode(const std::vector<std::uint8_t>& record, const Region& region, StripImageView* view) {
        VectorBytes bytes(record);
        Status status = reader_->open(&bytes, record_key(), kSalt, DecodeLimits{}, part_);
        if (!status.is_ok()) return status;
        const ImageSize size = reader_->frame().size;
        if (!region.lies_inside(size.width, size.height)) return Status::irregular("a region outside", 0);
        status = reader_->read_rows(&bytes, record_key(), region);
        return status.is_ok() ? decoder_->decode_record(*reader_, region, view) : status;
    }
    const jpeg::RecordReader& reader() const noexcept { return *reader_; }

  private:
    const jpeg::ReadPart part_;
    std::unique_ptr<JpegDecoder> decoder_;
    std::unique_ptr<jpeg::RecordReader> reader_ = std::make_unique<jpeg::RecordReader>();
};

inline bool is_same_view(const StripImageView& a, const StripImageView& b) {
    if (a.width != b.width || a.height != b.height) return false;
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < a.height; ++y) {
            for (std::int32_t x = 0; x < a.width; ++x) {
                if (a.at(plane, x, y) != b.at(plane, x, y)) return false;
            }
        }
    }
    return true;
}

}  // namespace fastload::testing
