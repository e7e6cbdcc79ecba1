#include "engine/cache/record_build.h"

#include <cerrno>
#include <new>
#include <utility>

#include "engine/cache/record_kinds.h"
#include "io/records/record_folder.h"

namespace fastload {
namespace {

constexpr std::chrono::minutes kMaxFileAge{5};

}  // namespace

RecordBuild::RecordBuild(std::shared_ptr<const BuiltRecords> records, std::uint64_t max_bytes,
                         std::uint64_t max_file_bytes)
    : records_(std::move(records)), appender_(records_->place(max_bytes), max_file_bytes) {
    FolderLock lock;
    const int folder = records_->place().folder;
    if (FolderLock::take(folder, &lock) == 0) remove_remains(folder, records_->kind());
}

bool RecordBuild::put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept {
    if (record.is_empty() || record.size() > max_record_bytes(records_->kind())) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_ != 0) return false;
    try {
        error_ = append(key, rank, record);
    } catch (const std::bad_alloc&) {
        error_ = ENOMEM;
    }
    return error_ == 0;
}

// Call it with the mutex.
int RecordBuild::append(const ContentKey& key, std::uint32_t rank, ByteSpan record) {
    const auto now = std::chrono::steady_clock::now();
    if (appender_.is_open() && (appender_.is_full() || now - file_begin_ > kMaxFileAge)) publish_file();
    if (error_ != 0 || appender_.is_open()) return error_ != 0 ? error_ : appender_.append(key, rank, record);
    file_begin_ = now;
    FolderLock lock;
    const int error = FolderLock::take(records_->place().folder, &lock);
    return error != 0 ? error : appender_.append(key, rank, record);
}

void RecordBuild::finish() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    publish_file();
}

// Call it with the mutex. Closes the file after any error; an unpublished file is removed.
void RecordBuild::publish_file() noexcept {
    int error = ENOMEM;
    std::shared_ptr<const OpenedRecords> opened;
    try {
        error = appender_.publish(&opened);
    } catch (const std::bad_alloc&) {
    }
    if (error == 0 && opened != nullptr) num_records_ += opened->size();
    if (error_ == 0) error_ = error;
    appender_.close();
}

int RecordBuild::error() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return error_;
}

std::uint64_t RecordBuild::num_records() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return num_records_;
}

}  // namespace fastload
