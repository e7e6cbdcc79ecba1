#include "io/working_directory.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fastload {
namespace {

Status failure(int system_errno) noexcept { return {StatusCode::kOpenFailed, system_errno, 0, ""}; }

}  // namespace

WorkingDirectory::WorkingDirectory() noexcept
    : fd_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), system_errno_(fd_.is_open() ? 0 : errno) {
    if (::getcwd(path_, sizeof path_) == nullptr) path_[0] = '\0';
}

Status find_system_path(ByteSpan path, const WorkingDirectory* working_directory, SystemPath* found) noexcept {
    if (path.size() >= sizeof(found->name)) return failure(ENAMETOOLONG);
    if (!path.is_empty()) {
        if (std::memchr(path.data(), '\0', path.size()) != nullptr) return failure(EINVAL);
        std::memcpy(found->name, path.data(), path.size());
    }
    found->name[path.size()] = '\0';
    found->directory = AT_FDCWD;
    if (working_directory != nullptr && found->name[0] != '/') {
        if (working_directory->descriptor() < 0) return failure(working_directory->system_errno());
        found->directory = working_directory->descriptor();
    }
    return Status::ok();
}

bool own_working_directory() noexcept { return ::unshare(CLONE_FS) == 0; }

}  // namespace fastload
