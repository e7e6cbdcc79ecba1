// Opens a file that others may have put there.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"

namespace fastload {

enum class RecordFileVerdict {
    kGood,
    kForeign,    // of another format, kind, byte order or decoder: left alone
    kUntrusted,  // no regular file, or of an owner that is neither this user nor root, or others may write to it
    kFailed      // the system's error is told
};

struct TrustedFile {
    UniqueFd descriptor;
    std::uint64_t size = 0;  // bytes, as it was opened
};

// `flags`: O_RDONLY or O_RDWR. Never waits, never follows a link. With `is_shared` regular files are trusted whoever
// owns them and may write to them.
RecordFileVerdict open_trusted_file(int folder, const char* name, int flags, bool is_shared, TrustedFile* file,
                                    int* error) noexcept;

}  // namespace fastload
