// Lists one directory, and tells whether it still is as it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fastload {

// Two equal states of a directory mean that no name was added or removed between them, but for changes within one tick
// of the file system's clock.
struct DirectoryState {
    std::int64_t mtime_ns = 0;
    std::int64_t ctime_ns = 0;  // cannot be set back by programs that restore mtimes
    std::int64_t inode = 0;     // the system's unsigned number, bit for bit

    bool operator==(const DirectoryState& other) const noexcept {
        return mtime_ns == other.mtime_ns && ctime_ns == other.ctime_ns && inode == other.inode;
    }
};

// The state of the directory at `path`, links followed; false where there is none.
bool read_state(const std::string& path, DirectoryState* state) noexcept;

// Whether the file lies on a file system that is a program: some of these do not move a directory's mtime when its
// contents change.
bool is_on_fuse(int fd) noexcept;

struct Subdirectory {
    std::string name;
    bool is_link = false;
};

struct DirectoryListing {
    int system_errno = 0;  // why it could not be listed, and then all else is empty; or 0
    DirectoryState state;  // from before the first name was read
    bool is_on_fuse = false;
    std::vector<Subdirectory> directories;  // in the system's order
    // What is not a directory, links to nowhere included: names one after the other, and where each ends.
    std::string file_names;
    std::vector<std::uint32_t> file_ends;
    // Files are sorted, and reduced to those with one of the extensions. Else a name is not ASCII: what is upper case
    // and which name comes first depends on its encoding, so they come all and in the system's order.
    bool is_sorted = true;
    bool has_unresolved_link = false;  // one that leads to nothing, today
};

// Lists the directory at `path`, links followed, "." and ".." left out. `extensions`, in lower case, select files by
// the end of their names in any case; none: all files. May throw std::bad_alloc, and std::length_error where the names
// of one directory take 4 GiB.
DirectoryListing list_directory(const std::string& path, const std::vector<std::string>& extensions);

}  // namespace fastload
