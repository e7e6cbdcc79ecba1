// Files by their paths, as records of coefficients and pixels know them.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/content_hash.h"
#include "base/span.h"
#include "io/file_facts.h"
#include "io/records/record_file.h"
#include "io/working_directory.h"

namespace fastload {

// A kind of file system, by how far the times of its files can be trusted.
enum class FileSystemKind : std::uint8_t {
    kLocal,   // the kernel sets them
    kServed,  // a server sets them; a client remembers them until the file is opened
    kProgram  // FUSE: a program may report anything, and the same for ever
};

// Asks the system once for each device. Thread-safe.
class FileSystemKinds {
  public:
    // Returns the kind of the file system with this device number. `name` in `directory` (as for openat()) lies on it,
    // or the open file `directory` if the name is empty.
    FileSystemKind find(dev_t device, int directory, const char* name) noexcept;

  private:
    static constexpr int kMaxDevices = 16;  // for any other device the system is asked each time

    // The device's number and, in the lowest two bits, the kind plus 1; 0 if there is none yet.
    std::atomic<std::uint64_t> known_[kMaxDevices] = {};
};

// A file whose record is looked for.
struct FileVersion {
    ContentKey key;  // of its path
    FileFacts facts;
};

// A hash of the steps that were applied to an image before it was kept; all 0 if there were none.
using StepsHash = std::array<std::uint8_t, 16>;

// Returns the absolute path, as it is written, of a file that is named in `directory`, or in the thread's current one
// if that is null. Returns an empty path if there is none, or without memory.
std::string absolute_path(ByteSpan path, const WorkingDirectory* directory) noexcept;

// Finds the key of the file's record. Returns false if there is no absolute path.
bool find_file_key(const HashKey& secret, ByteSpan path, const WorkingDirectory* directory, const StepsHash& steps,
                   ContentKey* key) noexcept;

// Finds the metadata of the regular file at `path` and the kind of its file system. Asks a file server anew. Returns
// false if there is no such file.
bool find_file_facts(ByteSpan path, const WorkingDirectory* directory, FileSystemKinds* file_systems, FileFacts* facts,
                     FileSystemKind* kind) noexcept;

// Write and read the stamp of a record, which describes the file that it was made of.
RecordStamp stamp_of(const HashKey& secret, const FileFacts& facts, ByteSpan contents) noexcept;
FileFacts facts_in(const RecordStamp& stamp) noexcept;
bool is_of_contents(const HashKey& secret, const RecordStamp& stamp, ByteSpan contents) noexcept;

// Returns the rank of a file's record: for one path, the record with the later change is better.
constexpr std::uint32_t rank_of(const FileFacts& facts) noexcept {
    return static_cast<std::uint32_t>(facts.ctime_ns / 1'000'000'000);
}

// Returns whether all checks of the record hold. `kind` is coefficients or pixels.
bool is_whole_file_record(RecordKind kind, const HashKey& secret, const ContentKey& key, ByteSpan record) noexcept;

}  // namespace fastload
