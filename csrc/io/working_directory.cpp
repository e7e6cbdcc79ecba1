#include "io/working_directory.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>

namespace fastload {

WorkingDirectory::WorkingDirectory() noexcept
    : fd_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), system_errno_(fd_.is_open() ? 0 : errno) {
    if (::getcwd(path_, sizeof path_) == nullptr) path_[0] = '\0';
}

bool own_working_directory() noexcept { return ::unshare(CLONE_FS) == 0; }

}  // namespace fastload
