#include "engine/cache/stored_record.h"

#include <algorithm>
#include <cstddef>

namespace fastload {

bool StoredRecord::read(std::uint64_t offset, Span<std::uint8_t> buffer) noexcept {
    if (offset > size_ || buffer.size() > size_ - offset) return false;
    if (bytes_ != nullptr) {
        std::copy_n(bytes_->begin() + static_cast<std::ptrdiff_t>(offset), buffer.size(), buffer.begin());
        return true;
    }
    if (file_ == nullptr) return false;
    int error = 0;
    if (!read_from_file(offset, buffer, &error)) {
        reads_->count_failure(error);
        return false;
    }
    reads_->count_read(buffer.size());
    return true;
}

bool StoredRecord::read_from_file(std::uint64_t offset, Span<std::uint8_t> buffer, int* error) noexcept {
    if (!is_head_right_ && offset == 0) return read_head(buffer, error);
    if (!is_head_right_ && !read_head({}, error)) return false;
    return file_->read_part({offset_, size_}, offset, buffer, error);
}

// Also reads the record's first bytes.
bool StoredRecord::read_head(Span<std::uint8_t> buffer, int* error) noexcept {
    RecordHead head;
    is_head_right_ = file_->read({offset_, size_}, buffer, &head, error) && head.key == key_;
    return is_head_right_;
}

}  // namespace fastload
