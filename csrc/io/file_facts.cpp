#include "io/file_facts.h"

#include <chrono>

namespace fastload {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kSettlingTime = 60 * kSecond;

}  // namespace

std::int64_t nanoseconds_of(const timespec& time) noexcept {
    const auto seconds = static_cast<std::uint64_t>(time.tv_sec);
    return static_cast<std::int64_t>(seconds * kSecond + static_cast<std::uint64_t>(time.tv_nsec));
}

FileFacts facts_of(const struct stat& facts) noexcept {
    return {static_cast<std::uint64_t>(facts.st_size), nanoseconds_of(facts.st_mtim), nanoseconds_of(facts.st_ctim),
            static_cast<std::uint64_t>(facts.st_ino)};
}

std::int64_t system_time_ns() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

bool are_settled(const FileFacts& facts, std::int64_t now_ns) noexcept {
    const std::int64_t latest = now_ns - kSettlingTime;
    return facts.mtime_ns <= latest && facts.ctime_ns <= latest && facts.ctime_ns % kSecond != 0;
}

}  // namespace fastload
