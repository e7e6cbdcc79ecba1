#include "engine/cache/opened_records.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/cache/record_kinds.h"
#include "io/records/record_directory.h"

namespace fastload {

OpenedRecords::OpenedRecords(std::string name, std::shared_ptr<const RecordFile> file, const RecordDirectory& directory)
    : name_(std::move(name)),
      file_(std::move(file)),
      generation_(directory.generation),
      covered_bytes_(directory.covered_bytes) {
    const std::size_t size = directory.entries.size();
    tags_.reserve(size);
    places_.reserve(size);
    ranks_.reserve(size);
    for (const DirectoryEntry& entry : directory.entries) {
        // Skips entries that do not fit in these bits. This program writes none so large or so far.
        if (entry.size >> kSizeBits != 0 || entry.offset >> (67 - kSizeBits) != 0) continue;
        tags_.push_back(entry.hash.low);
        places_.push_back(entry.offset / 8 << kSizeBits | entry.size);
        ranks_.push_back(entry.rank);
    }
    int bucket_bits = 0;
    while (bucket_bits < 31 && std::size_t{kEntriesPerBucket} << (bucket_bits + 1) <= tags_.size()) ++bucket_bits;
    bucket_shift_ = 64 - bucket_bits;
    const std::size_t num_buckets = std::size_t{1} << bucket_bits;
    bucket_begins_.assign(num_buckets + 1, 0);
    for (const std::uint64_t tag : tags_) ++bucket_begins_[bucket_of(tag) + 1];
    for (std::size_t i = 1; i <= num_buckets; ++i) bucket_begins_[i] += bucket_begins_[i - 1];
}

std::size_t OpenedRecords::bucket_of(std::uint64_t tag) const noexcept {
    return bucket_shift_ == 64 ? 0 : static_cast<std::size_t>(tag >> bucket_shift_);
}

std::size_t OpenedRecords::memory_bytes() const noexcept {
    return tags_.capacity() * sizeof(tags_[0]) + places_.capacity() * sizeof(places_[0]) +
           ranks_.capacity() * sizeof(ranks_[0]) + bucket_begins_.capacity() * sizeof(bucket_begins_[0]);
}

bool OpenedRecords::find(const ContentHash& hash, FoundRecord* found) const noexcept {
    const std::size_t bucket = bucket_of(hash.low);
    const auto begin = tags_.begin() + bucket_begins_[bucket];
    const auto end = tags_.begin() + bucket_begins_[bucket + 1];
    const auto tag = std::lower_bound(begin, end, hash.low);
    if (tag == end || *tag != hash.low) return false;
    const auto i = static_cast<std::size_t>(tag - tags_.begin());
    found->place.offset = (places_[i] >> kSizeBits) * 8;
    found->place.size = static_cast<std::uint32_t>(places_[i] & ((std::uint64_t{1} << kSizeBits) - 1));
    found->rank = ranks_[i];
    return true;
}

std::shared_ptr<const OpenedRecords> open_records(const StorePlace& place, const std::string& name, int* error) {
    const std::uint32_t revision = decoder_revision(place.kind);
    auto file = std::make_shared<RecordFile>();
    if (RecordFile::open(place.folder, name, place.kind, revision, file.get(), error) != RecordFileVerdict::kGood) {
        return nullptr;
    }
    RecordDirectory directory;
    if (read_record_directory(place.folder, name, place.kind, revision, *place.key, &directory, error) !=
        RecordFileVerdict::kGood) {
        return nullptr;
    }
    if (!(directory.id == file->id())) return nullptr;
    return std::make_shared<const OpenedRecords>(name, std::move(file), directory);
}

std::size_t RecordSnapshot::num_records() const noexcept {
    std::size_t sum = 0;
    for (const auto& file : files) sum += file->size();
    return sum;
}

std::size_t RecordSnapshot::memory_bytes() const noexcept {
    std::size_t sum = 0;
    for (const auto& file : files) sum += file->memory_bytes();
    return sum;
}

const OpenedRecords* RecordSnapshot::find(const ContentHash& hash, FoundRecord* found) const noexcept {
    const OpenedRecords* best = nullptr;
    for (const auto& file : files) {
        FoundRecord candidate;
        if (!file->find(hash, &candidate) || (best != nullptr && candidate.rank <= found->rank)) continue;
        best = file.get();
        *found = candidate;
    }
    return best;
}

}  // namespace fastload
