#include "engine/cache/decode_cache.h"

#include <cstring>

namespace fastload {
namespace {

// If a smaller share of the images has indexes, the look-ups of the others cost what these save.
constexpr std::uint64_t kMinWorthwhileShare = 20;  // 1 / 20
// After this many records it is clear whether there is room.
constexpr std::uint64_t kManyRecords = 4096;

// More rows are worth more than more checkpoints in a row.
std::uint32_t rank_of(const jpeg::EntropyIndex& index) noexcept {
    return 2 * index.rows_known() + (index.level() == jpeg::IndexLevel::kDense ? 1 : 0);
}

}  // namespace

jpeg::IndexLevel DecodeCache::level_for(const jpeg::ScanShape& shape) const noexcept {
    const bool is_small = jpeg::CheckpointRule(shape, jpeg::IndexLevel::kDense).count() <= kMaxDenseCheckpoints;
    return is_small ? level_.load(std::memory_order_relaxed) : jpeg::IndexLevel::kRows;
}

Status DecodeCache::find(const ContentKey& key, const jpeg::ScanShape& shape, Span<std::uint8_t> buffer,
                         jpeg::EntropyIndex* index) noexcept {
    if (const Status status = index->begin(shape, level_for(shape)); !status.is_ok()) return status;
    const std::size_t size = records_->find(key, buffer);
    ByteSpan packed;
    // A record that does not fit is not an index.
    const bool is_found = size != 0 && size <= buffer.size() &&
                          open_index_record(key_, key, {buffer.data(), size}, &packed) && index->unpack(shape, packed);
    (is_found ? hits_ : misses_).fetch_add(1, std::memory_order_relaxed);
    return Status::ok();
}

bool DecodeCache::keep(const ContentKey& key, const jpeg::EntropyIndex& index, Span<std::uint8_t> buffer) noexcept {
    const std::size_t size = index.pack(buffer.subspan(0, buffer.size() - kIndexCheckBytes));
    const std::uint64_t check = index_check_of(key_, key, {buffer.data(), size});
    std::memcpy(buffer.data() + size, &check, kIndexCheckBytes);
    const std::size_t record_bytes = size + kIndexCheckBytes;
    const bool is_kept = size != 0 && records_->put(key, rank_of(index), {buffer.data(), record_bytes});
    if (is_kept) {
        kept_.fetch_add(1, std::memory_order_relaxed);
    } else {
        give_up_if_full(dropped_.fetch_add(1, std::memory_order_relaxed) + 1);
    }
    if (size != 0 && index.level() == level_.load(std::memory_order_relaxed)) choose_level(record_bytes);
    return is_kept;
}

void DecodeCache::drop(const ContentKey& key) noexcept {
    mismatches_.fetch_add(1, std::memory_order_relaxed);
    records_->remove(key);
}

// Falls back a level if the records of all samples would not fit at the present one. Several threads may do so at once:
// then the figures of the new level begin with a few of the old one.
void DecodeCache::choose_level(std::size_t record_bytes) noexcept {
    const std::uint64_t records = level_records_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t bytes = level_bytes_.fetch_add(record_bytes, std::memory_order_relaxed) + record_bytes;
    if (records % kSampledRecords != 0) return;
    const std::uint64_t mean = bytes / records + records_->overhead_bytes();
    const std::uint64_t max_bytes = records_->max_bytes();
    // If the number is not known, the first half of the room is for dense records.
    const bool fits =
        expected_samples_ == 0 ? records_->used_bytes() <= max_bytes / 2 : mean <= max_bytes / expected_samples_;
    if (is_dense() && !fits) {
        level_.store(jpeg::IndexLevel::kRows, std::memory_order_relaxed);
        level_records_.store(0, std::memory_order_relaxed);
        level_bytes_.store(0, std::memory_order_relaxed);
    } else if (!is_dense() && expected_samples_ != 0 && mean / kMinWorthwhileShare > max_bytes / expected_samples_) {
        is_worth_it_.store(false, std::memory_order_relaxed);
    }
}

// If others have filled the table, the records of these images never get in.
void DecodeCache::give_up_if_full(std::uint64_t dropped) noexcept {
    const std::uint64_t useful = kept_.load(std::memory_order_relaxed) + hits_.load(std::memory_order_relaxed);
    if (dropped >= kManyRecords && useful < dropped / kMinWorthwhileShare) {
        is_worth_it_.store(false, std::memory_order_relaxed);
    }
}

CacheCounters DecodeCache::counters() const noexcept {
    return {hits_.load(std::memory_order_relaxed), misses_.load(std::memory_order_relaxed),
            mismatches_.load(std::memory_order_relaxed), dropped_.load(std::memory_order_relaxed)};
}

}  // namespace fastload
