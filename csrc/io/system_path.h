// A path in the form the system takes.
#pragma once

#include <climits>

#include "base/span.h"
#include "base/status.h"
#include "io/working_directory.h"

namespace fastload {

struct SystemPath {
    int directory;  // for openat() and similar calls
    char name[PATH_MAX];
};

// `path`: bytes, not terminated. A relative one is in `working_directory`; null: in the thread's current directory.
// kOpenFailed if no file can have this path, or if there is no such directory.
Status find_system_path(ByteSpan path, const WorkingDirectory* working_directory, SystemPath* found) noexcept;

}  // namespace fastload
