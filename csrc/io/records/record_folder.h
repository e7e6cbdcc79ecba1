// The folder of a store: its lock, and which files are in it. See Note [record files].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "io/records/record_file.h"

namespace fastload {

// Holds the lock of a folder (flock on `lock` in it, made where it is missing) until its end. It is held for
// milliseconds, by whoever makes or removes files or reserves space.
class FolderLock {
  public:
    // `name`: "lock", or "merge" for who merges files. Waits for others, without `waits` it gives up with EWOULDBLOCK.
    static int take(int folder, const char* name, bool waits, FolderLock* lock) noexcept;

  private:
    UniqueFd file_;  // closing unlocks, in the process that has locked; see RecordFileWriter
};

// Files of a store, sorted by name. Names of other forms are nobody's business here.
struct FolderFiles {
    std::vector<std::string> complete;  // without an ending: those that have .dat and .dir
    std::vector<std::string> remains;   // with it: .dat without .dir, .dir without .dat, temporary files
    std::uint64_t used_bytes = 0;       // what blocks of all of them take on disk, and of what is called otherwise
};

// Of one kind, `used_bytes` of all. May throw std::bad_alloc.
int list_record_files(int folder, RecordKind kind, FolderFiles* files);

// When an entry was last added, removed or renamed, as far as the file system tells.
int find_folder_time(int folder, std::int64_t* mtime_ns) noexcept;

// Removes remains of writers that live no more: a .dat without .dir and a temporary file whose .dat's lock is free or
// that have none, a .dir without .dat. Call it with the lock of the folder. May throw std::bad_alloc.
int remove_remains(int folder, RecordKind kind);

// Cuts off what a writer that lives no more had reserved: all of `<name>.dat` behind `covered_bytes`, which its .dir
// says, where the lock is free. Call it with the lock of the folder.
int trim_record_file(int folder, const std::string& name, std::uint64_t covered_bytes) noexcept;

}  // namespace fastload
