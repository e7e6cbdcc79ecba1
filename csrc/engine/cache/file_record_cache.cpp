#include "engine/cache/file_record_cache.h"

#include <sys/stat.h>

#include <utility>

namespace fastload {

bool FileRecordCache::find_facts(ByteSpan path, const WorkingDirectory* directory, FileFacts* facts) noexcept {
    FileSystemKind kind = FileSystemKind::kProgram;
    return find_file_facts(path, directory, &file_systems_, facts, &kind) && kind != FileSystemKind::kProgram;
}

bool FileRecordCache::find_opened(int descriptor, ByteSpan path, FileVersion* opened) noexcept {
    struct stat found = {};
    if (::fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode) || !find_key(path, nullptr, {}, &opened->key)) {
        return false;
    }
    opened->facts = facts_of(found);
    return checks_contents() || file_systems_.find(found.st_dev, descriptor, "") != FileSystemKind::kProgram;
}

bool FileRecordCache::is_next_checked() noexcept {
    if (check_interval_ == 0) return false;
    const std::uint64_t hit = hits_to_check_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t interval = first_interval_ + hit / check_interval_;
    const ByteSpan bytes{reinterpret_cast<const std::uint8_t*>(&interval), sizeof interval};
    return hit % check_interval_ == content_sum(key(), bytes) % check_interval_;
}

void FileRecordCache::count_check(bool is_right, ByteSpan path, const WorkingDirectory* directory) noexcept {
    checks_.fetch_add(1, std::memory_order_relaxed);
    if (is_right) return;
    mismatches_.fetch_add(1, std::memory_order_relaxed);
    std::string absolute = absolute_path(path, directory);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!has_failed_.exchange(true, std::memory_order_relaxed)) mismatched_path_ = std::move(absolute);
}

std::string FileRecordCache::mismatched_path() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return mismatched_path_;
}

FileRecordCounters FileRecordCache::counters() const noexcept {
    const auto outcome = [this](Outcome which) {
        return outcomes_[static_cast<int>(which)].load(std::memory_order_relaxed);
    };
    return {outcome(Outcome::kHit), outcome(Outcome::kStale), outcome(Outcome::kDamaged),
            checks_.load(std::memory_order_relaxed), mismatches_.load(std::memory_order_relaxed)};
}

}  // namespace fastload
