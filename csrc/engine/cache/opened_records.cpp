#include "engine/cache/opened_records.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/cache/record_kinds.h"
#include "io/records/record_directory.h"
#include "io/records/record_folder.h"

namespace fastload {
namespace {

// Files come and go while they are listed.
constexpr int kListings = 3;

// Opens the file `name` (without a suffix) of the store. Returns null if it cannot be used; *error is then the system's
// error, EBADMSG for damage, or 0 for a file of another format or an untrusted owner. May throw std::bad_alloc.
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
    if (directory.id != file->id()) return nullptr;
    return std::make_shared<const OpenedRecords>(name, std::move(file), directory);
}

// Returns the file of this name in the snapshot, or null if it is not there or has changed since.
std::shared_ptr<const OpenedRecords> unchanged_file(const StorePlace& place, const RecordSnapshot& before,
                                                    const std::string& name) {
    for (const auto& file : before.files) {
        if (file->name() != name) continue;
        std::uint64_t generation = 0;
        int error = 0;
        const RecordFileVerdict verdict = read_record_generation(place.folder, name, &generation, &error);
        return verdict == RecordFileVerdict::kGood && generation == file->generation() ? file : nullptr;
    }
    return nullptr;
}

}  // namespace

OpenedRecords::OpenedRecords(std::string name, std::shared_ptr<const RecordFile> file, const RecordDirectory& directory)
    : name_(std::move(name)), file_(std::move(file)), generation_(directory.generation) {
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

int look_at_folder(const StorePlace& place, const RecordSnapshot& before, RecordSnapshot* after) {
    for (int listing = 0; listing < kListings; ++listing) {
        FolderFiles files;
        if (const int error = list_record_files(place.folder, place.kind, &files); error != 0) return error;
        RecordSnapshot found;
        found.used_bytes = files.used_bytes;
        bool is_gone = false;
        for (const std::string& name : files.complete) {
            int error = 0;
            auto file = unchanged_file(place, before, name);
            if (file == nullptr) file = open_records(place, name, &error);
            if (file != nullptr) found.files.push_back(std::move(file));
            is_gone = is_gone || error == ENOENT;
            found.is_settled = found.is_settled && (error == 0 || error == EBADMSG);
        }
        found.names = std::move(files.complete);
        *after = std::move(found);
        if (!is_gone) break;
    }
    return 0;
}

}  // namespace fastload
