#include "engine/cache/file_record_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <limits>
#include <new>

#include "base/unique_fd.h"
#include "codec/jpeg/record_reader.h"
#include "image/plan/pixel_record.h"
#include "io/system_path.h"

namespace fastload {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

struct Stamp {
    FileFacts facts;
    ContentKey contents;
};
static_assert(sizeof(Stamp) <= sizeof(RecordStamp));

// Of two records of a path, that of the later change is the better one.
std::uint32_t rank_of(const FileFacts& facts) noexcept { return static_cast<std::uint32_t>(facts.ctime_ns / kSecond); }

// Without parts that are empty or ".", as the same file may be named with them or without.
class AbsolutePath {
  public:
    // Begins with `path`, of which `directory` is the one it is named in; null: the thread's current one. False where
    // it cannot be made an absolute one.
    bool begin(ByteSpan path, const WorkingDirectory* directory) noexcept {
        if (path.is_empty()) return false;
        if (path[0] == '/') return append(path);
        char current[PATH_MAX];
        const char* const folder = directory == nullptr ? ::getcwd(current, sizeof current) : directory->path();
        return folder != nullptr && *folder == '/' &&
               append({reinterpret_cast<const std::uint8_t*>(folder), std::strlen(folder)}) && append(path);
    }
    // False where it becomes too long.
    bool append_hash(const StepsHash& steps) noexcept {
        if (1 + steps.size() > sizeof bytes_ - size_) return false;
        bytes_[size_] = 0;  // which no path has
        std::memcpy(bytes_ + size_ + 1, steps.data(), steps.size());
        size_ += 1 + steps.size();
        return true;
    }
    ByteSpan bytes() const noexcept { return {bytes_, size_}; }

  private:
    // False likewise.
    bool append(ByteSpan path) noexcept {
        for (const std::uint8_t* part = path.begin(); part < path.end();) {
            const std::uint8_t* const end = std::find(part, path.end(), std::uint8_t{'/'});
            const auto size = static_cast<std::size_t>(end - part);
            if (size != 0 && !(size == 1 && *part == '.')) {
                if (size + 1 > sizeof bytes_ - size_) return false;
                bytes_[size_] = '/';
                std::memcpy(bytes_ + size_ + 1, part, size);
                size_ += size + 1;
            }
            part = end + 1;
        }
        return true;
    }

    std::uint8_t bytes_[2 * PATH_MAX];
    std::size_t size_ = 0;
};

bool find_stat(const SystemPath& file, struct stat* found) noexcept {
    int result = -1;
    do {
        result = ::fstatat(file.directory, file.name, found, 0);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

// Opening a file makes a client of a file server ask for what it has remembered.
bool find_opened_facts(const SystemPath& file, FileFacts* facts) noexcept {
    const UniqueFd opened(::openat(file.directory, file.name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    struct stat found = {};
    if (!opened.is_open() || ::fstat(opened.get(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
    *facts = facts_of(found);
    return true;
}

bool is_whole_pixel_record(const HashKey& secret, const ContentKey& key, ByteSpan record) noexcept {
    PixelRecordReader reader;
    std::uint8_t* const place = reader.reserve(record.size());
    if (place == nullptr) return false;
    std::memcpy(place, record.data(), record.size());
    return reader.open(secret, key.hash.high, std::numeric_limits<std::uint64_t>::max()).is_ok();
}

bool is_whole_coefficient_record(const HashKey& secret, const ContentKey& key, ByteSpan record) noexcept {
    DecodeLimits limits;
    limits.max_pixels = std::numeric_limits<std::uint64_t>::max();
    jpeg::MemoryBytes bytes(record);
    jpeg::RecordReader reader;
    if (!reader.open(&bytes, secret, key.hash.high, limits).is_ok()) return false;
    const ImageSize size = reader.record().frame().size;
    return reader.read_rows(&bytes, secret, {0, 0, size.width, size.height}).is_ok();
}

}  // namespace

std::string absolute_path(ByteSpan path, const WorkingDirectory* directory) noexcept {
    AbsolutePath absolute;
    if (!absolute.begin(path, directory)) return {};
    try {
        return {reinterpret_cast<const char*>(absolute.bytes().data()), absolute.bytes().size()};
    } catch (const std::bad_alloc&) {
        return {};
    }
}

bool is_whole_file_record(RecordKind kind, const HashKey& secret, const ContentKey& key, ByteSpan record) noexcept {
    return kind == RecordKind::kPixels ? is_whole_pixel_record(secret, key, record)
                                       : is_whole_coefficient_record(secret, key, record);
}

bool FileRecordCache::find_key(ByteSpan path, const WorkingDirectory* directory, const StepsHash& steps,
                               ContentKey* key) const noexcept {
    if (!is_on() || pace_.is_slower()) return false;
    AbsolutePath absolute;
    if (!absolute.begin(path, directory) || (steps != StepsHash{} && !absolute.append_hash(steps))) return false;
    *key = {content_hash(store_->key(), absolute.bytes()), absolute.bytes().size()};
    return true;
}

bool FileRecordCache::find_facts(ByteSpan path, const WorkingDirectory* directory, FileFacts* facts) noexcept {
    SystemPath file;
    struct stat found = {};
    if (!find_system_path(path, directory, &file).is_ok() || !find_stat(file, &found) || !S_ISREG(found.st_mode)) {
        return false;
    }
    *facts = facts_of(found);
    const FileSystemKind kind = file_systems_.find(found.st_dev, file.directory, file.name);
    if (kind == FileSystemKind::kLocal || validation_ == Validation::kTrust) return true;
    return kind == FileSystemKind::kServed && find_opened_facts(file, facts);
}

bool FileRecordCache::find_opened(int descriptor, ByteSpan path, std::int64_t opened_ns,
                                  OpenedVersion* opened) noexcept {
    struct stat found = {};
    if (::fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode) ||
        !find_key(path, nullptr, {}, &opened->version.key)) {
        return false;
    }
    opened->version.facts = facts_of(found);
    opened->opened_ns = opened_ns;
    return validation_ != Validation::kStat ||
           file_systems_.find(found.st_dev, descriptor, "") != FileSystemKind::kProgram;
}

bool FileRecordCache::wants(const FileVersion& file, std::int64_t opened_ns, std::size_t record_bytes) const noexcept {
    return is_on() && is_settled(file, opened_ns) && store_->would_keep(file.key, rank_of(file.facts), record_bytes);
}

bool FileRecordCache::is_settled(const FileVersion& file, std::int64_t opened_ns) const noexcept {
    return are_settled(file.facts, opened_ns + clock_ahead_ns_);
}

bool FileRecordCache::put(const FileVersion& file, ByteSpan record) noexcept {
    const bool is_kept = store_->put(file.key, rank_of(file.facts), record);
    (is_kept ? kept_ : dropped_).fetch_add(1, std::memory_order_relaxed);
    return is_kept;
}

RecordStamp FileRecordCache::stamp_of(const FileVersion& file, ByteSpan contents) const noexcept {
    const Stamp stamp = {file.facts, {content_hash(store_->key(), contents), contents.size()}};
    RecordStamp bytes = {};
    std::memcpy(bytes.data(), &stamp, sizeof stamp);
    return bytes;
}

bool FileRecordCache::is_of(const RecordStamp& stamp, const FileVersion& file, ByteSpan contents) const noexcept {
    Stamp noted;
    std::memcpy(&noted, stamp.data(), sizeof noted);
    if (!checks_contents()) return noted.facts == file.facts;
    return noted.contents.length == contents.size() && noted.contents.hash == content_hash(store_->key(), contents);
}

bool FileRecordCache::is_next_checked() noexcept {
    if (check_interval_ == 0) return false;
    const std::uint64_t hit = hits_to_check_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t interval = first_interval_ + hit / check_interval_;
    const ByteSpan bytes{reinterpret_cast<const std::uint8_t*>(&interval), sizeof interval};
    return hit % check_interval_ == content_sum(key(), bytes) % check_interval_;
}

void FileRecordCache::count(const FileVersion& file, Outcome outcome) noexcept {
    if (outcome == Outcome::kDamaged) store_->remove(file.key);
    outcomes_[static_cast<int>(outcome)].fetch_add(1, std::memory_order_relaxed);
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
    FileRecordCounters counters;
    counters.hits = outcome(Outcome::kHit);
    counters.stale = outcome(Outcome::kStale);
    counters.damaged = outcome(Outcome::kDamaged);
    counters.misses = outcome(Outcome::kMiss) + counters.stale + counters.damaged;
    counters.kept = kept_.load(std::memory_order_relaxed);
    counters.dropped = dropped_.load(std::memory_order_relaxed);
    counters.checks = checks_.load(std::memory_order_relaxed);
    counters.mismatches = mismatches_.load(std::memory_order_relaxed);
    return counters;
}

}  // namespace fastload
