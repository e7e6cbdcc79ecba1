#include "engine/sample/recorded_file.h"

#include <new>

namespace fastload {
namespace {

class StoredBytes final : public jpeg::RecordBytes {
  public:
    explicit StoredBytes(StoredRecord* record) noexcept : record_(*record) {}
    std::uint64_t size() const noexcept override { return record_.size(); }
    bool read(std::uint64_t offset, Span<std::uint8_t> bytes) noexcept override { return record_.read(offset, bytes); }

  private:
    StoredRecord& record_;
};

}  // namespace

bool RecordedFile::begin(const CoefficientCache& cache, ByteSpan path, const WorkingDirectory* directory) noexcept {
    forget();
    try {
        path_.assign(reinterpret_cast<const char*>(path.data()), path.size());
    } catch (const std::bad_alloc&) {
        return false;
    }
    directory_ = directory;
    has_key_ = cache.find_key(path, directory, &version_.key);
    return has_key_;
}

void RecordedFile::begin_opened(const OpenedVersion& opened) noexcept {
    forget();
    path_.clear();
    version_.key = opened.version.key;
    has_key_ = true;
    note_read(opened.version.facts, opened.opened_ns);
}

bool RecordedFile::find(const CoefficientCache& cache, const FileFacts& facts, ByteSpan contents,
                        const DecodeLimits& limits) noexcept {
    version_.facts = facts;
    outcome_ = CoefficientCache::Outcome::kMiss;
    if (!cache.find(version_, &stored_)) return false;
    StoredBytes bytes(&stored_);
    const Status status = reader_.open(&bytes, cache.key(), cache.salt_of(version_), limits);
    if (status.code == StatusCode::kIrregular || status.code == StatusCode::kReadFailed) {
        outcome_ = CoefficientCache::Outcome::kDamaged;
    } else if (!status.is_ok()) {
        return false;  // of a file that other limits let be decoded, or no memory
    } else if (!cache.is_of(reader_.record().stamp(), version_, contents)) {
        outcome_ = CoefficientCache::Outcome::kStale;
    } else {
        outcome_ = CoefficientCache::Outcome::kHit;
        is_open_ = true;
    }
    return is_open_;
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

Status RecordedFile::read_rows(const CoefficientCache& cache, const Region& region) noexcept {
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
    outcome_ = CoefficientCache::Outcome::kDamaged;
}

bool RecordedFile::is_wanted(const CoefficientCache& cache) const noexcept {
    return has_key_ && !is_open_ && cache.wants(version_, opened_ns_);
}

}  // namespace fastload
