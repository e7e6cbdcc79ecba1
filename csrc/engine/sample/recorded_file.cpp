#include "engine/sample/recorded_file.h"

#include <new>

namespace fastload {
namespace {

// Of an ordinary photograph, of its file's bytes. Where less is free, making a record is most likely for nothing.
constexpr std::uint64_t kCoefficientBytesOfFile = 2;

class StoredBytes final : public jpeg::RecordBytes {
  public:
    explicit StoredBytes(StoredRecord* record) noexcept : record_(*record) {}
    std::uint64_t size() const noexcept override { return record_.size(); }
    bool read(std::uint64_t offset, Span<std::uint8_t> bytes) noexcept override { return record_.read(offset, bytes); }

  private:
    StoredRecord& record_;
};

}  // namespace

bool RecordedFile::begin(const FileRecordCache& cache, ByteSpan path, const WorkingDirectory* directory,
                         const StepsHash& steps) noexcept {
    forget();
    try {
        path_.assign(reinterpret_cast<const char*>(path.data()), path.size());
    } catch (const std::bad_alloc&) {
        return false;
    }
    directory_ = directory;
    has_key_ = cache.find_key(path, directory, steps, &version_.key);
    return has_key_;
}

void RecordedFile::begin_opened(const OpenedVersion& opened) noexcept {
    forget();
    path_.clear();
    version_.key = opened.version.key;
    has_key_ = true;
    note_read(opened.version.facts, opened.opened_ns);
}

bool RecordedFile::find(const FileRecordCache& cache, const FileFacts& facts, ByteSpan contents,
                        const DecodeLimits& limits, jpeg::ReadPart part) noexcept {
    version_.facts = facts;
    outcome_ = FileRecordCache::Outcome::kMiss;
    if (!cache.find(version_, &stored_)) return false;
    const Status status = open_stored(cache, limits, part);
    if (status.code == StatusCode::kIrregular || status.code == StatusCode::kReadFailed) {
        outcome_ = FileRecordCache::Outcome::kDamaged;
    } else if (!status.is_ok()) {
        return false;  // of a file that other limits let be decoded, or no memory
    } else if (!cache.is_of(stamp(), version_, contents)) {
        outcome_ = FileRecordCache::Outcome::kStale;
    } else {
        outcome_ = FileRecordCache::Outcome::kHit;
        is_open_ = true;
    }
    return is_open_;
}

Status RecordedFile::open_stored(const FileRecordCache& cache, const DecodeLimits& limits,
                                 jpeg::ReadPart part) noexcept {
    is_pixels_ = cache.kind() == RecordKind::kPixels;
    if (is_pixels_) return open_pixels(cache, limits);
    StoredBytes bytes(&stored_);
    return reader_.open(&bytes, cache.key(), cache.salt_of(version_), limits, part);
}

Status RecordedFile::open_pixels(const FileRecordCache& cache, const DecodeLimits& limits) noexcept {
    std::uint8_t* const place = pixels_.reserve(stored_.size());
    if (place == nullptr) return {StatusCode::kOutOfMemory, 0, 0, "no memory for a pixel record"};
    if (!stored_.read(0, {place, stored_.size()})) {
        return {StatusCode::kReadFailed, 0, 0, "a pixel record cannot be read"};
    }
    return pixels_.open(cache.key(), cache.salt_of(version_), limits.max_pixels);
}

void RecordedFile::note_read(const FileFacts& facts, std::int64_t opened_ns) noexcept {
    version_.facts = facts;
    opened_ns_ = opened_ns;
}

void RecordedFile::forget() noexcept {
    stored_ = StoredRecord();
    found_in_ns_ = 0;
    has_key_ = false;
    is_open_ = false;
}

Status RecordedFile::read_rows(const FileRecordCache& cache, const Region& region) noexcept {
    StoredBytes bytes(&stored_);
    const Status status = reader_.read_rows(&bytes, cache.key(), region);
    if (!status.is_ok()) give_up();
    return status;
}

bool RecordedFile::read_all(std::vector<std::uint8_t>* record) noexcept {
    try {
        record->resize(stored_.size());
    } catch (const std::bad_alloc&) {
        return false;
    }
    return stored_.read(0, {record->data(), record->size()});
}

void RecordedFile::give_up() noexcept {
    is_open_ = false;
    outcome_ = FileRecordCache::Outcome::kDamaged;
}

bool RecordedFile::is_wanted(const FileRecordCache& cache) const noexcept {
    return has_key_ && !is_open_ &&
           cache.wants(version_, opened_ns_, static_cast<std::size_t>(kCoefficientBytesOfFile * version_.facts.size));
}

}  // namespace fastload
