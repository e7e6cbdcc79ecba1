// Opens a file that others may have put there.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"

namespace fastload {

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

// `flags` is O_RDONLY or O_RDWR. Never waits and never follows a link.
RecordFileVerdict open_trusted_file(int folder, const char* name, int flags, TrustedFile* file, int* error) noexcept;

}  // namespace fastload
