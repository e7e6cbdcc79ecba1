#include "io/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "io/working_directory.h"

namespace fastload {
namespace {

Status failure(StatusCode code, int system_errno) noexcept { return {code, system_errno, 0, ""}; }

int open_for_reading(int directory, const char* name, int flags) noexcept {
    const int all_flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | flags;
    int fd = -1;
    do {
        // Not always openat(): some programs run under libraries and filters that only know open().
        fd = directory == AT_FDCWD ? ::open(name, all_flags) : ::openat(directory, name, all_flags);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

Status open_file(ByteSpan path, const WorkingDirectory* working_directory, UniqueFd* file) noexcept {
    SystemPath found;
    if (const Status status = find_system_path(path, working_directory, &found); !status.is_ok()) return status;
    const int directory = found.directory;
    const char* const name = found.name;
    // O_NONBLOCK: opening a FIFO without a writer must not wait.
    int fd = open_for_reading(directory, name, O_NONBLOCK);
    struct stat facts = {};
    if (fd < 0 && errno == EAGAIN && ::fstatat(directory, name, &facts, 0) == 0 && S_ISREG(facts.st_mode)) {
        fd = open_for_reading(directory, name,
                              0);  // another process has a lease on it, which the kernel asks back meanwhile
    }
    if (fd < 0) return failure(StatusCode::kOpenFailed, errno);
    *file = UniqueFd(fd);
    return Status::ok();
}

}  // namespace

Status find_open_facts(int descriptor, std::uint64_t max_file_bytes, FileFacts* found) noexcept {
    struct stat facts = {};
    int result = -1;
    do {
        result = ::fstat(descriptor, &facts);  // network file systems may be interrupted here too
    } while (result != 0 && errno == EINTR);
    if (result != 0) return failure(StatusCode::kOpenFailed, errno);
    if (!S_ISREG(facts.st_mode)) return failure(StatusCode::kNotRegularFile, S_ISDIR(facts.st_mode) ? EISDIR : 0);
    *found = facts_of(facts);
    return found->size > max_file_bytes ? failure(StatusCode::kFileTooLarge, EFBIG) : Status::ok();
}

Status read_open_file(int descriptor, std::uint8_t* destination, std::size_t size) noexcept {
    std::size_t done = 0;
    while (done < size) {
        const ssize_t count = ::pread(descriptor, destination + done, size - done, static_cast<off_t>(done));
        if (count > 0) {
            done += static_cast<std::size_t>(count);
        } else if (count == 0) {
            return {StatusCode::kFileShrank, 0, done, ""};
        } else if (errno != EINTR) {
            return {StatusCode::kReadFailed, errno, done, ""};
        }
    }
    return Status::ok();
}

Status FileReader::read(ByteSpan path, std::uint64_t max_file_bytes, ByteSpan* contents,
                        const WorkingDirectory* directory, const HeadJudge& judge) noexcept {
    UniqueFd file;
    if (const Status status = open_file(path, directory, &file); !status.is_ok()) return status;
    if (const Status status = find_open_facts(file.get(), max_file_bytes, &facts_); !status.is_ok()) return status;
    std::uint64_t size = facts_.size;
    if (judge != nullptr && size > kUnjudgedBytes) {
        std::uint8_t head[kHeadBytes];
        if (const Status status = read_open_file(file.get(), head, sizeof(head)); !status.is_ok()) return status;
        if (judge(ByteSpan(head, sizeof(head)))) size = sizeof(head);
    }
    if (const Status status = buffer_.reserve(size); !status.is_ok()) return status;
    if (const Status status = read_open_file(file.get(), buffer_.data(), size); !status.is_ok()) return status;
    *contents = ByteSpan(buffer_.data(), size);
    return Status::ok();
}

}  // namespace fastload
