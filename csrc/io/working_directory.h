// The directory in which the system looks up relative names, kept or made a thread's own.
#pragma once

#include <climits>

#include "base/unique_fd.h"

namespace fastload {

// That of the thread which makes it, at that time: who changes the current one later does not change this. Immutable,
// so threads may share it.
class WorkingDirectory {
  public:
    // Where the system gives no descriptor, relative names cannot be opened in it, and absolute ones can.
    WorkingDirectory() noexcept;

    // For openat(), or -1.
    int descriptor() const noexcept { return fd_.get(); }
    // Why there is no descriptor, or 0.
    int system_errno() const noexcept { return system_errno_; }
    // Its absolute name when this was made; empty where it has none.
    const char* path() const noexcept { return path_; }

  private:
    UniqueFd fd_;
    int system_errno_ = 0;
    char path_[PATH_MAX] = {};
};

// From now on the calling thread, and threads that it starts, have a current directory and a file mode mask of their
// own, which are still those of before. False where the system refuses, as containers may.
bool own_working_directory() noexcept;

}  // namespace fastload
