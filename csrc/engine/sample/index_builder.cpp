#include <new>

#include "base/aligned_buffer.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/cache/decode_cache.h"
#include "engine/sample/record_builder.h"
#include "io/file_reader.h"

namespace fastload {
namespace {

class IndexBuilder final : public RecordBuilder {
  public:
    // `options.cache` is not null. May throw std::bad_alloc.
    IndexBuilder(const KernelTable& kernels, const NativeWorkerOptions& options)
        : cache_(options.cache), max_file_bytes_(options.max_file_bytes), decoder_(kernels, options.decode_limits) {
        if (!buffer_.reserve(DecodeCache::kMaxRecordBytes).is_ok()) throw std::bad_alloc();
    }

    Status build(ByteSpan path, BuildOutcome* outcome) noexcept override {
        File file;
        const Status status = open(path, &file, outcome);
        if (!status.is_ok() || *outcome == BuildOutcome::kNone) return status;
        const std::uint32_t rows_known = index_.rows_known();
        StripImageView pixels;
        if (!decoder_.decode(file.last_pixels, &index_, &pixels).is_ok()) {
            *outcome = BuildOutcome::kNone;
        } else if (decoder_.was_index_wrong()) {
            cache_->drop(file.key);
            *outcome = BuildOutcome::kDifferent;
        } else if (index_.rows_known() == rows_known) {
            *outcome = BuildOutcome::kKnown;
        } else {
            *outcome = cache_->keep(file.key, index_, buffer()) ? BuildOutcome::kKept : BuildOutcome::kNotKept;
        }
        return Status::ok();
    }

    Status build_with_pixels(const PackedImageView&, BuildOutcome* outcome) noexcept override {
        *outcome = BuildOutcome::kNone;
        return Status::ok();
    }

    Status compare(ByteSpan path, BuildOutcome* outcome) noexcept override {
        File file;
        Status status = open(path, &file, outcome);
        if (!status.is_ok() || *outcome == BuildOutcome::kNone || index_.size() == 0) return status;
        status = whole_.begin(file.shape, index_.level());
        if (!status.is_ok()) return status;
        StripImageView pixels;
        if (!decoder_.decode(file.last_pixels, &whole_, &pixels).is_ok()) {
            // The part before the fault may be right, but nothing here tells.
            *outcome = BuildOutcome::kNone;
            return Status::ok();
        }
        *outcome = holds_for(whole_) ? BuildOutcome::kKnown : BuildOutcome::kDifferent;
        return Status::ok();
    }

    Status compare_with_pixels(const PackedImageView&, BuildOutcome* outcome) noexcept override {
        *outcome = BuildOutcome::kDifferent;
        return Status::ok();
    }

  private:
    struct File {
        ContentKey key;
        jpeg::ScanShape shape;
        Region last_pixels;  // below and to the right of all others
    };

    // Reads the file. *outcome is kNone for one that has no index.
    Status open(ByteSpan path, File* file, BuildOutcome* outcome) noexcept {
        *outcome = BuildOutcome::kUnread;
        ByteSpan contents;
        if (const Status status = reader_.read(path, max_file_bytes_, &contents); !status.is_ok()) return status;
        *outcome = BuildOutcome::kNone;
        ImageInfo info;
        if (!decoder_.read_header(contents, &info).is_ok() || !decoder_.scan_shape(&file->shape)) return Status::ok();
        file->key = cache_->key_of(contents);
        file->last_pixels = {0, info.size.height - 1, info.size.width, 1};
        *outcome = BuildOutcome::kAbsent;
        return cache_->find(file->key, file->shape, buffer(), &index_);
    }

    bool holds_for(const jpeg::EntropyIndex& whole) const noexcept {
        if (index_.data_bytes() != whole.data_bytes() || index_.size() > whole.size()) return false;
        for (std::size_t i = 0; i < index_.size(); ++i) {
            if (!(index_[i] == whole[i])) return false;
        }
        return true;
    }

    Span<std::uint8_t> buffer() const noexcept { return {buffer_.data(), DecodeCache::kMaxRecordBytes}; }

    const std::shared_ptr<DecodeCache> cache_;
    const std::uint64_t max_file_bytes_;
    JpegDecoder decoder_;
    FileReader reader_;
    AlignedBuffer buffer_;
    jpeg::EntropyIndex index_;
    jpeg::EntropyIndex whole_;
};

}  // namespace

std::unique_ptr<RecordBuilder> make_index_builder(const KernelTable& kernels, const NativeWorkerOptions& options) {
    return std::make_unique<IndexBuilder>(kernels, options);
}

}  // namespace fastload
