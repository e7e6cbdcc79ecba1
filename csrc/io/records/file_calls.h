// Calls of the system for files in a folder: repeated where a signal interrupts them, and until all is done. Each
// returns the system's error number, 0 for none.
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/span.h"
#include "base/unique_fd.h"

namespace fastload {

// A name in a folder, put together without an allocation; empty, which no file is called, where it is too long.
class FileName {
  public:
    FileName(std::string_view stem, std::string_view ending) noexcept;

    const char* c_str() const noexcept { return text_.data(); }

  private:
    std::array<char, NAME_MAX + 1> text_ = {};
};

// The error of `call`, which returns a negative number and sets errno as the system's do; never EINTR.
template <typename Call>
int error_of(const Call& call) noexcept {
    for (;;) {
        if (call() >= 0) return 0;
        if (errno != EINTR) return errno;
    }
}

// Never waits, neither for a FIFO's other end nor for a terminal, and never follows a link.
int open_in_folder(int folder, const char* name, int flags, UniqueFd* file) noexcept;
int find_facts(int file, struct stat* facts) noexcept;
// Of a name in a folder; of a link itself.
int find_facts_in_folder(int folder, const char* name, struct stat* facts) noexcept;
bool is_missing(int folder, const char* name) noexcept;

// Fills the parts one behind the other, at most four, from the file's byte `offset` on; `size` is less than theirs
// where the file ends before.
int read_at(int file, std::uint64_t offset, Span<const Span<std::uint8_t>> parts, std::size_t* size) noexcept;
int read_at(int file, std::uint64_t offset, Span<std::uint8_t> buffer, std::size_t* size) noexcept;
// Writes the parts likewise.
int write_at(int file, std::uint64_t offset, Span<const ByteSpan> parts) noexcept;

// 0: this descriptor holds the lock. EWOULDBLOCK: another one does.
int try_lock_file(int file) noexcept;
int truncate_file(int file, std::uint64_t size) noexcept;
int unlink_in_folder(int folder, const char* name) noexcept;

// The bytes of a value as it lies in memory.
template <typename Value>
ByteSpan bytes_of_value(const Value& value) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}

template <typename Value>
Span<std::uint8_t> bytes_of_value(Value* value) noexcept {
    return {reinterpret_cast<std::uint8_t*>(value), sizeof *value};
}

}  // namespace fastload
