#include "engine/cache/stored_record.h"

namespace fastload {

bool StoredRecord::read(std::uint64_t offset, Span<std::uint8_t> buffer) noexcept {
    if (offset > size_ || buffer.size() > size_ - offset) return false;
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

bool find_stored(const RecordSnapshot& files, const ContentKey& key, std::uint32_t max_record_bytes, StoreReads* reads,
                 StoredRecord* record) noexcept {
    if (reads->error() != 0) return false;
    FoundRecord found;
    const OpenedRecords* const opened = files.find(key.hash, &found);
    // Another process may have written a file that names a larger record than the kind allows.
    if (opened == nullptr || found.place.size > max_record_bytes) return false;
    *record = StoredRecord(key, found.place, opened->file(), reads);
    return true;
}

ReadCounters read_counters(const RecordSnapshot& files, const StoreReads& reads) noexcept {
    return {files.num_records(), files.memory_bytes(), reads.bytes(), reads.damaged(), reads.error()};
}

}  // namespace fastload
