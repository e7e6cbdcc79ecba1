// Lists one directory, and tells whether it has changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fastload {

// If two states of a directory are equal, no name was added or removed between them. Changes within one tick of the
// file system's clock may be missed.
struct DirectoryState {
    std::int64_t mtime_ns = 0;
    std::int64_t ctime_ns = 0;  // cannot be set back by programs that restore mtimes
    std::int64_t inode = 0;     // the system's unsigned number, bit for bit

    bool operator==(const DirectoryState& other) const noexcept {
        return mtime_ns == other.mtime_ns && ctime_ns == other.ctime_ns && inode == other.inode;
    }
};

// The state of the directory at `path`, links followed; false if there is none.
bool read_state(const std::string& path, DirectoryState* state) noexcept;

// True if the file lies on a file system implemented by a program: some of these do not update a directory's mtime when
// its contents change.
bool is_on_fuse(int fd) noexcept;

struct Subdirectory {
    std::string name;
    bool is_link = false;
};

struct DirectoryListing {
    int system_errno = 0;  // the reason why it could not be listed, with everything else empty; or 0
    DirectoryState state;  // from before the first name was read
    bool is_on_fuse = false;
    std::vector<Subdirectory> directories;  // in the system's order
    // Everything that is not a directory, dangling links included: names one after the other, and the end of each.
    std::string file_names;
    std::vector<std::uint32_t> file_ends;
    // True if the files are sorted and reduced to those with one of the extensions. False if a name is not ASCII: upper
    // case and the order of names depend on the encoding, so all files are listed, in the system's order.
    bool is_sorted = true;
    bool has_unresolved_link = false;  // one that has no target now
};

// Lists the directory at `path`, links followed, "." and ".." left out. `extensions`, in lower case, select files by
// the end of their names in any case; none: all files. May throw std::bad_alloc, and std::length_error if the names of
// one directory take 4 GiB.
DirectoryListing list_directory(const std::string& path, const std::vector<std::string>& extensions);

}  // namespace fastload
