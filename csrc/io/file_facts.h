// What the system says of a file that changes with its contents.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace fastload {

struct FileFacts {
    std::uint64_t size = 0;
    std::int64_t mtime_ns = 0;  // since 1970
    std::int64_t ctime_ns = 0;
    std::uint64_t inode = 0;

    friend constexpr bool operator==(const FileFacts& a, const FileFacts& b) noexcept {
        return a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns && a.inode == b.inode;
    }
};

FileFacts facts_of(const struct stat& facts) noexcept;

// The time of the system's clock in nanoseconds since 1970.
std::int64_t system_time_ns() noexcept;

// Whether a file that had these facts when it was opened at `now_ns` has the same contents wherever it has the same
// facts later. Times of files come in steps of up to 2 s, and a file server's clock may be behind: a file that was
// changed in the last minute might be changed again without another time. So might one whose ctime is no time of a
// change: squashfs and ISO images show that of their making, in whole seconds.
bool are_settled(const FileFacts& facts, std::int64_t now_ns) noexcept;

}  // namespace fastload
