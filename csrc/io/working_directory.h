// The directory in which the system looks up relative names: a descriptor of it, or a separate one for a thread.
#pragma once

#include <climits>

#include "base/span.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace fastload {

// The current directory of the calling thread at construction; later changes of the current directory do not affect it.
// Immutable, so threads may share it.
class WorkingDirectory {
  public:
    // If the system gives no descriptor, only absolute names can be opened.
    WorkingDirectory() noexcept;

    // For openat(), or -1.
    int descriptor() const noexcept { return fd_.get(); }
    // The reason why there is no descriptor, or 0.
    int system_errno() const noexcept { return system_errno_; }
    // Its absolute name at construction; empty if it had none.
    const char* path() const noexcept { return path_; }

  private:
    UniqueFd fd_;
    int system_errno_ = 0;
    char path_[PATH_MAX] = {};
};

struct SystemPath {
    int directory;  // for openat() and similar calls
    char name[PATH_MAX];
};

// `path`: bytes, not terminated. A relative one is in `working_directory`; null: in the thread's current directory.
// kOpenFailed if no file can have this path, or if there is no such directory.
Status find_system_path(ByteSpan path, const WorkingDirectory* working_directory, SystemPath* found) noexcept;

// Gives the calling thread, and threads that it starts, their own current directory and file mode mask, with the
// previous values at first. Returns false if the system refuses, as containers may.
bool own_working_directory() noexcept;

}  // namespace fastload
