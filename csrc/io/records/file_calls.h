// System calls on files in a folder. They are repeated after an interruption by a signal and until all bytes are moved.
// Each returns the system's error number, or 0.
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/span.h"
#include "base/unique_fd.h"

namespace fastload {

// The name of a file in a folder, built without an allocation. A name that is too long becomes empty, which names no
// file.
class FileName {
  public:
    FileName(std::string_view stem, std::string_view ending) noexcept;

    const char* c_str() const noexcept { return text_.data(); }

  private:
    std::array<char, NAME_MAX + 1> text_ = {};
};

// Returns the error of `call`, which returns a negative number and sets errno as system calls do. Never returns EINTR.
template <typename Call>
int error_of(const Call& call) noexcept {
    for (;;) {
        if (call() >= 0) return 0;
        if (errno != EINTR) return errno;
    }
}

// Never waits, neither for the other end of a FIFO nor for a terminal, and never follows a link.
int open_in_folder(int folder, const char* name, int flags, UniqueFd* file) noexcept;
int find_facts(int file, struct stat* facts) noexcept;
// Finds the metadata of a name in a folder; for a link, of the link itself.
int find_facts_in_folder(int folder, const char* name, struct stat* facts) noexcept;
bool is_missing(int folder, const char* name) noexcept;

enum class RecordFileVerdict {
    kGood,
    kForeign,    // of another format, kind, byte order or decoder: left alone
    kUntrusted,  // not a regular file, owned by neither this user nor root, or writable by others
    kFailed      // with the system's error
};

struct TrustedFile {
    UniqueFd descriptor;
    std::uint64_t size = 0;  // bytes, when it was opened
};

// Opens a file that others may have put there. `flags` is O_RDONLY or O_RDWR. Never waits and never follows a link.
RecordFileVerdict open_trusted_file(int folder, const char* name, int flags, TrustedFile* file, int* error) noexcept;

// Fills the parts in turn, at most four, from the file's byte `offset` on. `size` is less than their total if the file
// ends earlier.
int read_at(int file, std::uint64_t offset, Span<const Span<std::uint8_t>> parts, std::size_t* size) noexcept;
int read_at(int file, std::uint64_t offset, Span<std::uint8_t> buffer, std::size_t* size) noexcept;
// Writes the parts in turn, at most four.
int write_at(int file, std::uint64_t offset, Span<const ByteSpan> parts) noexcept;

// Returns 0 if this descriptor holds the lock now, EWOULDBLOCK if another one does.
int try_lock_file(int file) noexcept;
int truncate_file(int file, std::uint64_t size) noexcept;
int unlink_in_folder(int folder, const char* name) noexcept;

// Returns the bytes of a value as they lie in memory.
template <typename Value>
ByteSpan bytes_of_value(const Value& value) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}

template <typename Value>
Span<std::uint8_t> bytes_of_value(Value* value) noexcept {
    return {reinterpret_cast<std::uint8_t*>(value), sizeof *value};
}

}  // namespace fastload
