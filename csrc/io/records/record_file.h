// One file of records in sequence: written by one process, read by any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/content_hash.h"
#include "base/span.h"
#include "base/unique_fd.h"
#include "io/records/file_calls.h"

namespace fastload {

// Note [record files]
// A store is a folder with pairs of files `<kind>-<16 hex digits>.dat` and `.dir`. A .dat begins with a RecordFileHead;
// each record after it begins at a multiple of 8 bytes with a RecordHead. The writer of a .dat holds a lock (flock) on
// it for as long as it may append to it. Only the .dir says which records exist (record_directory.h): the bytes of a
// .dat after its covered bytes do not count, and no reader meets a record that is not complete on disk. Files are read
// with pread, never mapped: a file that somebody truncates gives a short read. Numbers are in the machine's byte order;
// a file of another byte order is foreign.

enum class RecordKind : std::uint32_t { kIndex = 1, kCoefficients = 2, kPixels = 3 };

// Returns "index", "coefficients" or "pixels", the prefix of file names.
const char* record_kind_name(RecordKind kind) noexcept;

// A random number that tells apart two files of one name.
using RecordFileId = std::array<std::uint64_t, 2>;

struct RecordFileHead {
    static constexpr std::array<char, 8> kMagic = {'f', 'l', 'r', 'e', 'c', 'o', 'r', 'd'};
    static constexpr std::uint32_t kByteOrderMark = 0x01020304;
    static constexpr std::uint32_t kFormatVersion = 1;

    std::array<char, 8> magic = kMagic;
    std::uint32_t byte_order = kByteOrderMark;
    std::uint32_t format_version = kFormatVersion;
    RecordKind kind = RecordKind::kIndex;
    std::uint32_t decoder_revision = 0;
    RecordFileId id = {};
};

struct RecordHead {
    ContentKey key;
    std::uint32_t size = 0;  // of the record's own bytes
    // For two records of one key, the one of the higher rank says more; each kind defines its ranks.
    std::uint32_t rank = 0;
};

constexpr std::size_t kRecordAlignment = 8;

// Returns the bytes that a record takes in a file, including its head and the padding to a multiple of 8.
constexpr std::uint64_t record_file_bytes(std::uint64_t record_bytes) noexcept {
    return (sizeof(RecordHead) + record_bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

// The place of a record: the offset of its head, and the size of the bytes after the head.
struct RecordPlace {
    std::uint64_t offset = 0;
    std::uint32_t size = 0;
};

// Errors here and below are the system's error numbers, 0 for none.

// The part of a head that all versions of the format share; the head of a .dir begins with it, too.
constexpr std::size_t kVersionedHeadBytes = offsetof(RecordFileHead, id);

// Judges a head of which the file has the first `size` bytes. Returns kForeign if the part that all versions share is
// not as in `expected`, kFailed with EBADMSG if the file is too short.
RecordFileVerdict judge_head(const RecordFileHead& head, std::size_t size, const RecordFileHead& expected,
                             int* error) noexcept;

// Reads records of one file. Thread-safe.
class RecordFile {
  public:
    // Opens `<name>.dat`, in the folder with the descriptor `folder`, read-only. Never waits (for a FIFO of that name)
    // and never follows a link. Returns kFailed with EBADMSG if the file is shorter than its head.
    static RecordFileVerdict open(int folder, const std::string& name, RecordKind kind, std::uint32_t decoder_revision,
                                  RecordFile* file, int* error) noexcept;

    const RecordFileId& id() const noexcept { return id_; }
    // Finds the size of the file now.
    int find_size(std::uint64_t* size) const noexcept;

    // Reads a record's head and fills `buffer` with the record's first bytes, in one system call; the buffer is no
    // larger than the record. Returns false if not all bytes are there or the head says another size; `error` is then 0
    // unless the system refused (EINTR is retried). `head->key` says whether it is the record that was looked for, and
    // its own bytes say whether it is whole.
    bool read(const RecordPlace& place, Span<std::uint8_t> buffer, RecordHead* head, int* error) const noexcept;
    // Fills `buffer` from the record's byte `offset` on, no further than its end. Does not look at the head.
    bool read_part(const RecordPlace& place, std::uint64_t offset, Span<std::uint8_t> buffer,
                   int* error) const noexcept;

    // Returns true if nobody held the writer's lock; this object holds it from now on.
    bool try_lock() const noexcept;

  private:
    UniqueFd file_;
    RecordFileId id_ = {};
};

// Appends records to a file of its own. Not thread-safe. Never calls flock(LOCK_UN): in a forked child that would free
// the parent's lock.
class RecordFileWriter {
  public:
    // Creates a locked file with its head, of a name that nobody has (0600, getrandom, O_EXCL). Call it with the
    // folder's lock: otherwise another process may take the file for the remains of a dead writer. After an error there
    // is no file.
    static int create(int folder, RecordKind kind, std::uint32_t decoder_revision, RecordFileWriter* writer) noexcept;
    // Opens and locks the file of a writer that has ended. Call go_on_from() before anything else. Returns EWOULDBLOCK
    // if somebody writes to it, EPERM if it cannot be trusted. Call it with the folder's lock.
    static int reopen(int folder, const std::string& name, const RecordFileId& id, RecordFileWriter* writer);
    // The next record follows the file's first `end` bytes, and all others are cut off. Returns EBADMSG if it is
    // shorter.
    int go_on_from(std::uint64_t end) noexcept;

    bool is_open() const noexcept { return file_.is_open(); }
    const std::string& name() const noexcept { return name_; }  // without ".dat"
    const RecordFileId& id() const noexcept { return id_; }
    // The offset of the next record.
    std::uint64_t end() const noexcept { return end_; }

    // Writes `record` after `head`, whose size is set to the record's. After an error nothing of it counts.
    int append(const RecordHead& head, ByteSpan record, RecordPlace* place) noexcept;

    // Tells the system to begin writing the bytes that it has not been told to write yet.
    void push_out() noexcept;
    // Returns when all is on disk (fdatasync). After an error call nothing more: the system may have dropped what it
    // could not write, and reports that only once. Records that were synced before stay good.
    int sync() noexcept;
    // Closes the descriptor in a process forked since, so that the lock does not outlive the writer's process. Do not
    // use the object afterwards.
    void close_descriptor() noexcept { file_ = UniqueFd(); }

  private:
    UniqueFd file_;
    std::string name_;
    RecordFileId id_ = {};
    std::uint64_t end_ = 0;
    std::uint64_t pushed_end_ = 0;
};

}  // namespace fastload
