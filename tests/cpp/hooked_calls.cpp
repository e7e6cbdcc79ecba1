#undef _FORTIFY_SOURCE  // whose headers define some of these functions themselves
#include "hooked_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>

namespace fastload::testing {
namespace {

constexpr std::size_t kMaxNames = 1000;

thread_local HookedCalls* active = nullptr;

}  // namespace

HookedCalls::HookedCalls(int n, Hook hook) : n_(n), hook_(std::move(hook)) {
    names_.reserve(kMaxNames);
    active = this;
}

HookedCalls::HookedCalls(int n, int error) : HookedCalls(n, [error] { return error; }) {}

HookedCalls::~HookedCalls() { active = nullptr; }

int HookedCalls::next(const char* name) {
    if (is_in_hook_) return kGoesOn;
    if (names_.size() < kMaxNames) names_.emplace_back(name);
    if (++count_ != n_) return kGoesOn;
    const int errno_before = errno;
    is_in_hook_ = true;
    const int result = hook_();
    is_in_hook_ = false;
    errno = errno_before;  // the caller of readdir() has set it
    return result;
}

std::vector<ScriptedRandomCall>& scripted_random_calls() {
    static std::vector<ScriptedRandomCall> calls;
    return calls;
}

namespace {

int next(const char* name) { return active == nullptr ? HookedCalls::kGoesOn : active->next(name); }

bool fails(const char* name) {
    const int error = next(name);
    if (error <= 0) return false;
    errno = error;
    return true;
}

// Whether a transfer fails; otherwise `size` is the number of bytes that it may transfer.
bool fails(const char* name, std::size_t* size) {
    const int error = next(name);
    if (error == HookedCalls::kMovesOneByte) *size = std::min<std::size_t>(*size, 1);
    if (error <= 0) return false;
    errno = error;
    return true;
}

using PartsFunction = ssize_t (*)(int, const iovec*, int, off_t);

ssize_t transfer(const char* name, PartsFunction function, int file, const iovec* parts, int count, off_t offset) {
    if (count == 0) return 0;
    iovec first = parts[0];
    if (fails(name, &first.iov_len)) return -1;
    const bool is_cut = first.iov_len != parts[0].iov_len;
    return function(file, is_cut ? &first : parts, is_cut ? 1 : count, offset);
}

template <typename Function>
Function real(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace fastload::testing

using fastload::testing::fails;
using fastload::testing::real;
using fastload::testing::scripted_random_calls;
using fastload::testing::transfer;

#define REAL(name) real<decltype(&::name)>(#name)

extern "C" {

int openat(int folder, const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return fails("openat") ? -1 : REAL(openat)(folder, path, flags, mode);
}

ssize_t pread(int file, void* to, size_t size, off_t offset) {
    return fails("pread", &size) ? -1 : REAL(pread)(file, to, size, offset);
}

ssize_t preadv(int file, const iovec* parts, int count, off_t offset) {
    return transfer("preadv", REAL(preadv), file, parts, count, offset);
}

ssize_t pwritev(int file, const iovec* parts, int count, off_t offset) {
    return transfer("pwritev", REAL(pwritev), file, parts, count, offset);
}

int sync_file_range(int file, off64_t offset, off64_t size, unsigned flags) {
    return fails("sync_file_range") ? -1 : REAL(sync_file_range)(file, offset, size, flags);
}

ssize_t getrandom(void* to, size_t size, unsigned flags) {
    if (auto& calls = scripted_random_calls(); !calls.empty()) {
        const auto call = calls.front();
        calls.erase(calls.begin());
        errno = call.error;
        if (call.error != 0) return -1;
        size = std::min(size, call.most_bytes);
    }
    return fails("getrandom") ? -1 : REAL(getrandom)(to, size, flags);
}

int fsync(int file) { return fails("fsync") ? -1 : REAL(fsync)(file); }

int fdatasync(int file) { return fails("fdatasync") ? -1 : REAL(fdatasync)(file); }

int fstat(int file, struct stat* facts) __THROW { return fails("fstat") ? -1 : REAL(fstat)(file, facts); }

int fstatat(int folder, const char* path, struct stat* facts, int flags) __THROW {
    return fails("fstatat") ? -1 : REAL(fstatat)(folder, path, facts, flags);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) __THROW {
    return fails("renameat") ? -1 : REAL(renameat)(from_folder, from, to_folder, to);
}

int unlinkat(int folder, const char* path, int flags) __THROW {
    return fails("unlinkat") ? -1 : REAL(unlinkat)(folder, path, flags);
}

int flock(int file, int operation) __THROW { return fails("flock") ? -1 : REAL(flock)(file, operation); }

int ftruncate(int file, off_t size) __THROW { return fails("ftruncate") ? -1 : REAL(ftruncate)(file, size); }

DIR* fdopendir(int file) { return fails("fdopendir") ? nullptr : REAL(fdopendir)(file); }

dirent* readdir(DIR* directory) { return fails("readdir") ? nullptr : REAL(readdir)(directory); }

}  // extern "C"
