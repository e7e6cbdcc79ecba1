// A path as the system takes it.
#pragma once

#include <climits>

#include "base/span.h"
#include "base/status.h"
#include "io/working_directory.h"

namespace fastload {

struct SystemPath {
    int directory;  // for openat() and its like
    char name[PATH_MAX];
};

// `path`: bytes, not terminated. A relative one is in `working_directory`; null: in the thread's current one.
// kOpenFailed for what no file can be called, or where there is no such directory.
Status find_system_path(ByteSpan path, const WorkingDirectory* working_directory, SystemPath* found) noexcept;

}  // namespace fastload
