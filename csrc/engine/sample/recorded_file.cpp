#include "engine/sample/recorded_file.h"

#include <new>

namespace fastload {

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

void RecordedFile::begin_opened(const FileVersion& opened) noexcept {
    forget();
    path_.clear();
    version_ = opened;
    has_key_ = true;
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
    return reader_.open(&stored_, cache.key(), version_.key.hash.high, limits, part);
}

Status RecordedFile::open_pixels(const FileRecordCache& cache, const DecodeLimits& limits) noexcept {
    std::uint8_t* const place = pixels_.reserve(stored_.size());
    if (place == nullptr) return {StatusCode::kOutOfMemory, 0, 0, "no memory for a pixel record"};
    if (!stored_.read(0, {place, stored_.size()})) {
        return {StatusCode::kReadFailed, 0, 0, "a pixel record cannot be read"};
    }
    return pixels_.open(cache.key(), version_.key.hash.high, limits.max_pixels);
}

void RecordedFile::forget() noexcept {
    stored_ = StoredRecord();
    outcome_ = FileRecordCache::Outcome::kMiss;
    has_key_ = false;
    is_open_ = false;
}

bool RecordedFile::decode(const FileRecordCache& cache, const Region& region, JpegDecoder* decoder, StripImageView* rgb,
                          SampleTimings* timings) noexcept {
    const bool was_read_ahead = reader_.bytes_ahead() > 0;
    std::uint64_t rows_ns = 0;
    {
        const StageTimer timer(&rows_ns);
        is_open_ = reader_.read_rows(&stored_, cache.key(), region).is_ok();
    }
    timings->cache_ns += rows_ns;
    if (!was_read_ahead) timings->record_ns += rows_ns;
    if (is_open_) {
        const StageTimer timer(&timings->decode_ns);
        is_open_ = decoder->decode_record(reader_, region, rgb).is_ok();
    }
    if (!is_open_) give_up();
    return is_open_;
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

}  // namespace fastload
