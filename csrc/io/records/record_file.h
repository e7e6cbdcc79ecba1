// One file of records, one after the other: written by one process, read by any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/content_hash.h"
#include "base/span.h"
#include "base/unique_fd.h"
#include "io/records/trusted_file.h"

namespace fastload {

// Note [record files]
// A store is a folder with pairs of files `<kind>-<16 hex digits>.dat` and `.dir`. A .dat begins with a RecordFileHead;
// each record after it begins at a multiple of 8 bytes with a RecordHead. The writer of a .dat holds a lock (flock) on
// it as long as it may append to it. Which records there are is said by the .dir alone (record_directory.h), so what
// stands in a .dat after what that covers does not exist, and no reader meets a record that is not complete on disk.
// Files are read with pread, never mapped: one that is cut by somebody gives a short read. Numbers lie in the order
// of the machine's bytes; a file of another order is a foreign one.

enum class RecordKind : std::uint32_t { kIndex = 1, kCoefficients = 2, kPixels = 3 };

// "index", "coefficients": what file names begin with.
const char* record_kind_name(RecordKind kind) noexcept;

// The difference between two files of one name.
struct RecordFileId {
    std::uint64_t low = 0;
    std::uint64_t high = 0;

    friend constexpr bool operator==(const RecordFileId& a, const RecordFileId& b) noexcept {
        return a.low == b.low && a.high == b.high;
    }
};

struct RecordFileHead {
    static constexpr std::array<char, 8> kMagic = {'f', 'l', 'r', 'e', 'c', 'o', 'r', 'd'};
    static constexpr std::uint32_t kByteOrderMark = 0x01020304;
    static constexpr std::uint32_t kFormatVersion = 1;

    std::array<char, 8> magic = kMagic;
    std::uint32_t byte_order = kByteOrderMark;
    std::uint32_t format_version = kFormatVersion;
    RecordKind kind = RecordKind::kIndex;
    std::uint32_t decoder_revision = 0;
    RecordFileId id;
};

struct RecordHead {
    ContentKey key;
    std::uint32_t size = 0;  // of the record's own bytes
    // The record with the higher rank of two for one key says more. The rest is the kind's business.
    std::uint32_t rank = 0;
};

constexpr std::size_t kRecordAlignment = 8;

// The bytes that a record takes in a file, with its head and the padding to a multiple of 8.
constexpr std::uint64_t record_file_bytes(std::uint64_t record_bytes) noexcept {
    return (sizeof(RecordHead) + record_bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

// The place of a record: its head's first byte, and the size of what follows the head.
struct RecordPlace {
    std::uint64_t offset = 0;
    std::uint32_t size = 0;
};

// Errors here and below are the system's numbers; 0: none.

// The head of every file of a store, of whatever version; the head of a .dir begins likewise.
constexpr std::size_t kVersionedHeadBytes = offsetof(RecordFileHead, id);

// Judges the first `size` bytes that a file has of a head. kForeign where what every version has is not as in
// `expected`; kFailed with EBADMSG where the file is too short.
RecordFileVerdict judge_head(const RecordFileHead& head, std::size_t size, const RecordFileHead& expected,
                             int* error) noexcept;

// Reads records of one file. Thread-safe.
class RecordFile {
  public:
    // `name` without ".dat", in the folder with the descriptor `folder`. Opens it read-only; never waits (a FIFO of
    // that name), never follows a link. kFailed with EBADMSG: shorter than its head.
    static RecordFileVerdict open(int folder, const std::string& name, RecordKind kind, std::uint32_t decoder_revision,
                                  RecordFile* file, int* error) noexcept;

    const RecordFileId& id() const noexcept { return id_; }
    // The size of the file now.
    int find_size(std::uint64_t* size) const noexcept;

    // Reads a record's head and fills `buffer` with its first bytes, by one call of the system; the buffer is no larger
    // than the record. False where that is not all there, or the head says another size; `error` is 0 then unless the
    // system refused (EINTR is retried). Whether the record is the one that was looked for says `head->key`, whether it
    // is whole its own bytes.
    bool read(const RecordPlace& place, Span<std::uint8_t> buffer, RecordHead* head, int* error) const noexcept;
    // Fills `buffer` from the record's byte `offset` on, no further than to its end, and looks at no head.
    bool read_part(const RecordPlace& place, std::uint64_t offset, Span<std::uint8_t> buffer,
                   int* error) const noexcept;

    // True where nobody holds the writer's lock; then this object holds it from now on.
    bool try_lock() const noexcept;

  private:
    UniqueFd file_;
    RecordFileId id_;
};

// Appends records to a file of its own. Not thread-safe. Never unlocks: a forked child that closed its copy by LOCK_UN
// would free the parent's lock.
class RecordFileWriter {
  public:
    // Makes a file of a name that nobody has (0600, getrandom, O_EXCL), locked, with its head. Call it with the lock of
    // the folder: else somebody may take the file for what a dead writer has left. After an error there is none.
    static int create(int folder, RecordKind kind, std::uint32_t decoder_revision, RecordFileWriter* writer) noexcept;

    bool is_open() const noexcept { return file_.is_open(); }
    const std::string& name() const noexcept { return name_; }  // without ".dat"
    const RecordFileId& id() const noexcept { return id_; }
    // The offset of the next record.
    std::uint64_t end() const noexcept { return end_; }
    // Up to there space has been reserved, or written to.
    std::uint64_t reserved_end() const noexcept { return reserved_end_; }

    // Asks the file system for `bytes` more than reserved_end(), without changing the size. On a file system that
    // cannot (EOPNOTSUPP) nothing is reserved, and 0 is returned: append() finds out. After an error a part may take
    // space on disk, until trim().
    int reserve(std::uint64_t bytes) noexcept;

    // Writes `record` behind `head`, whose size is set to the record's. On an error the next record is written over
    // what came of this one.
    int append(const RecordHead& head, ByteSpan record, RecordPlace* place) noexcept;

    // Has the system begin to write what it has not been told to write yet.
    void push_out() noexcept;
    // Returns when all is on disk (fdatasync). An error is for good, for append() too: the system may have dropped what
    // it could not write, and says so only once. What was synced before stays good; begin another file.
    int sync() noexcept;
    // Cuts off what was reserved and not used.
    int trim() noexcept;
    // For a process forked since, in which the lock must not outlive the writer's process. The object is of no other
    // use behind it.
    void close_descriptor() noexcept { file_ = UniqueFd(); }

  private:
    UniqueFd file_;
    std::string name_;
    RecordFileId id_;
    std::uint64_t end_ = 0;
    std::uint64_t reserved_end_ = 0;
    std::uint64_t pushed_end_ = 0;
    int sync_error_ = 0;
};

}  // namespace fastload
