#include "io/records/trusted_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/records/file_calls.h"

namespace fastload {
namespace {

bool is_trusted(const struct stat& facts) noexcept {
    const bool is_own = facts.st_uid == ::geteuid() || facts.st_uid == 0;
    return S_ISREG(facts.st_mode) && is_own && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Returns whether open() failed because the name is a link (with O_NOFOLLOW), a socket, a device that is not there, or
// a folder to be written to.
bool is_no_file(int error) noexcept { return error == ELOOP || error == ENXIO || error == EISDIR; }

}  // namespace

RecordFileVerdict open_trusted_file(int folder, const char* name, int flags, TrustedFile* file, int* error) noexcept {
    TrustedFile opened;
    struct stat facts = {};
    *error = open_in_folder(folder, name, flags, &opened.descriptor);
    if (is_no_file(*error)) {
        *error = 0;
        return RecordFileVerdict::kUntrusted;
    }
    if (*error == 0) *error = find_facts(opened.descriptor.get(), &facts);
    if (*error != 0) return RecordFileVerdict::kFailed;
    if (!is_trusted(facts)) return RecordFileVerdict::kUntrusted;
    opened.size = static_cast<std::uint64_t>(facts.st_size);
    *file = std::move(opened);
    return RecordFileVerdict::kGood;
}

}  // namespace fastload
