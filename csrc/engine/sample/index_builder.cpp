#include "engine/sample/index_builder.h"

#include <new>

namespace fastload {

IndexBuilder::IndexBuilder(const KernelTable& kernels, const NativeWorkerOptions& options)
    : cache_(options.cache), max_file_bytes_(options.max_file_bytes), decoder_(kernels, options.decode_limits) {
    if (!buffer_.reserve(DecodeCache::kMaxRecordBytes).is_ok()) throw std::bad_alloc();
}

// Not ok: the status of a file that cannot be read. Else *outcome is kNone for one that has no index.
Status IndexBuilder::open(ByteSpan path, File* file, BuildOutcome* outcome) noexcept {
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

Status IndexBuilder::build(ByteSpan path, BuildOutcome* outcome) noexcept {
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

Status IndexBuilder::compare(ByteSpan path, BuildOutcome* outcome) noexcept {
    File file;
    Status status = open(path, &file, outcome);
    if (!status.is_ok() || *outcome == BuildOutcome::kNone || index_.size() == 0) return status;
    status = whole_.begin(file.shape, index_.level());
    if (!status.is_ok()) return status;
    StripImageView pixels;
    if (!decoder_.decode(file.last_pixels, &whole_, &pixels).is_ok()) {
        // What stands before the fault is right all the same, but nothing here tells.
        *outcome = BuildOutcome::kNone;
        return Status::ok();
    }
    *outcome = holds_for(whole_) ? BuildOutcome::kKnown : BuildOutcome::kDifferent;
    return Status::ok();
}

bool IndexBuilder::holds_for(const jpeg::EntropyIndex& whole) const noexcept {
    if (index_.data_bytes() != whole.data_bytes() || index_.size() > whole.size()) return false;
    for (std::size_t i = 0; i < index_.size(); ++i) {
        if (!(index_[i] == whole[i])) return false;
    }
    return true;
}

}  // namespace fastload
