// The folder of a store: its lock and its files. See Note [record files].
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "io/records/record_file.h"

namespace fastload {

// Holds the lock of a folder (flock on the file `lock` in it, which is created if it is missing) until it is destroyed.
// The lock is held while files are made or removed, and while a batch of indexes is written.
class FolderLock {
  public:
    FolderLock() noexcept = default;
    FolderLock(FolderLock&&) noexcept = default;
    FolderLock& operator=(FolderLock&& other) noexcept;  // swaps, so that each process stays with its descriptor
    // Unlocks only in the process that took the lock, not in a forked child that has a copy of the object.
    ~FolderLock();

    // Waits for other holders.
    static int take(int folder, FolderLock* lock) noexcept;

  private:
    UniqueFd file_;
    pid_t process_ = 0;
};

// The files of a store, sorted by name. Files with names of other forms only count in `used_bytes`.
struct FolderFiles {
    std::vector<std::string> complete;  // without a suffix: names that have .dat and .dir
    std::vector<std::string> remains;   // with the suffix: .dat without .dir, .dir without .dat, temporary files (.tmp)
    std::uint64_t kind_bytes = 0;       // disk space of all of them, in blocks
    std::uint64_t used_bytes = 0;       // disk space of all files, whatever their names
};

// Lists the files of one kind; only `used_bytes` counts all files. May throw std::bad_alloc.
int list_record_files(int folder, RecordKind kind, FolderFiles* files);

// Finds when an entry was last added, removed or renamed, as far as the file system tells.
int find_folder_time(int folder, std::int64_t* mtime_ns) noexcept;

// Removes the remains of writers that are dead: a .dat without .dir whose lock is free, a temporary file whose .dat is
// missing or has a free lock, a .dir without .dat. Keeps anything that is not a regular file, and a .dat of another
// format. A file that cannot be removed does not stop the others; the first error is returned. Call it with the
// folder's lock. May throw std::bad_alloc.
int remove_remains(int folder, RecordKind kind);

}  // namespace fastload
