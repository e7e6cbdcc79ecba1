// The folder of a store: its lock, and which files are in it. See Note [record files].
#pragma once

#include <sys/types.h>

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
    FolderLock() noexcept = default;
    FolderLock(FolderLock&&) noexcept = default;
    FolderLock& operator=(FolderLock&& other) noexcept;  // exchanges, so that each process stays with its descriptor
    FolderLock(const FolderLock&) = delete;              // two owners would unlock twice
    FolderLock& operator=(const FolderLock&) = delete;
    // Unlocks in the process that has locked; a forked child's copy of the object does not.
    ~FolderLock();

    // `name`: "lock", or "merge" for who merges files. Waits for others, without `waits` it gives up with EWOULDBLOCK.
    static int take(int folder, const char* name, bool waits, FolderLock* lock) noexcept;

  private:
    UniqueFd file_;
    pid_t process_ = 0;
};

// Files of a store, sorted by name. Names of other forms are nobody's business here.
struct FolderFiles {
    std::vector<std::string> complete;  // without an ending: those that have .dat and .dir
    std::vector<std::string> remains;   // with it: .dat without .dir, .dir without .dat, temporary files (.tmp)
    std::uint64_t kind_bytes = 0;       // what blocks of all of them take on disk
    std::uint64_t used_bytes = 0;       // and of what is called otherwise as well
};

// Of one kind, but for `used_bytes`. May throw std::bad_alloc.
int list_record_files(int folder, RecordKind kind, FolderFiles* files);

// When an entry was last added, removed or renamed, as far as the file system tells.
int find_folder_time(int folder, std::int64_t* mtime_ns) noexcept;

// Removes remains of writers that live no more: a .dat without .dir and a temporary file whose .dat's lock is free or
// that have none, a .dir without .dat. What is no regular file stays, and a .dat of another format. One that cannot be
// removed keeps no other; the first error is told. Call it with the lock of the folder. May throw std::bad_alloc.
int remove_remains(int folder, RecordKind kind);

// Cuts off what a writer that lives no more had reserved: all of `<name>.dat` behind `covered_bytes`, which its .dir
// says, where the lock is free and the .dir still says so. Call it with the lock of the folder.
int trim_record_file(int folder, const std::string& name, std::uint64_t covered_bytes) noexcept;

}  // namespace fastload
