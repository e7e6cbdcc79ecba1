// The metadata of a file that change with its contents.
#pragma once

#include <sys/stat.h>

#include <chrono>
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

// The number that statfs() gives for FUSE; linux/magic.h defines it, but not in old versions.
constexpr std::uint32_t kFuse = 0x65735546;

// Wraps in the year 2262.
inline std::int64_t nanoseconds_of(const timespec& time) noexcept {
    const auto seconds = static_cast<std::uint64_t>(time.tv_sec);
    return static_cast<std::int64_t>(seconds * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec));
}

inline FileFacts facts_of(const struct stat& facts) noexcept {
    return {static_cast<std::uint64_t>(facts.st_size), nanoseconds_of(facts.st_mtim), nanoseconds_of(facts.st_ctim),
            static_cast<std::uint64_t>(facts.st_ino)};
}

// The time of the system's clock in nanoseconds since 1970.
inline std::int64_t system_time_ns() noexcept {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// True if a file that had this metadata when it was opened at `now_ns` still has the same contents whenever it has the
// same metadata later. File times have steps of up to 2 s, and a file server's clock may be late: a file that was
// changed in the last minute may change again without a new time. The same holds for a ctime that is not the time of a
// change: squashfs and ISO images show the time when they were made, in whole seconds.
inline bool are_settled(const FileFacts& facts, std::int64_t now_ns) noexcept {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::int64_t latest = now_ns - 60 * kSecond;
    return facts.mtime_ns <= latest && facts.ctime_ns <= latest && facts.ctime_ns % kSecond != 0;
}

}  // namespace fastload
