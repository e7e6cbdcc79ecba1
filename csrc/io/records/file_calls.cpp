#include "io/records/file_calls.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace fastload {
namespace {

constexpr std::size_t kMaxParts = 4;

// Returns whether `size` bytes from `offset` on end at an offset that the system can express.
bool has_place(std::uint64_t offset, std::size_t size) noexcept {
    constexpr auto kEnd = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    return offset <= kEnd && size <= kEnd - offset;
}

bool is_trusted(const struct stat& facts) noexcept {
    const bool is_own = facts.st_uid == ::geteuid() || facts.st_uid == 0;
    return S_ISREG(facts.st_mode) && is_own && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Returns whether open() failed because the name is a link (with O_NOFOLLOW), a socket, a device that is not there, or
// a folder to be written to.
bool is_no_file(int error) noexcept { return error == ELOOP || error == ENXIO || error == EISDIR; }

// Removes `size` bytes from the front.
void advance(Span<iovec>* parts, std::size_t size) noexcept {
    while (!parts->is_empty() && size >= (*parts)[0].iov_len) {
        size -= (*parts)[0].iov_len;
        *parts = parts->subspan(1, parts->size() - 1);
    }
    if (parts->is_empty()) return;
    (*parts)[0].iov_base = static_cast<std::uint8_t*>((*parts)[0].iov_base) + size;
    (*parts)[0].iov_len -= size;
}

// The buffers of one vectored read or write.
class Transfer {
  public:
    void add(std::uint8_t* data, std::size_t size) noexcept {
        parts_[count_++] = {data, size};
        size_ += size;
    }
    std::size_t size() const noexcept { return size_; }

    // Repeats `call`, which gets the parts, their number and an offset, until all bytes are moved or a call moves none.
    template <typename Call>
    int move(const Call& call, std::uint64_t offset, std::size_t* moved) noexcept {
        *moved = 0;
        Span<iovec> rest(parts_.data(), count_);
        for (advance(&rest, 0); !rest.is_empty();) {
            ssize_t count = 0;
            const int error = error_of([&] {
                return count = call(rest.data(), static_cast<int>(rest.size()), static_cast<off_t>(offset + *moved));
            });
            if (error != 0 || count == 0) return error;
            *moved += static_cast<std::size_t>(count);
            advance(&rest, static_cast<std::size_t>(count));
        }
        return 0;
    }

  private:
    std::array<iovec, kMaxParts> parts_ = {};
    std::size_t count_ = 0;
    std::size_t size_ = 0;
};

}  // namespace

FileName::FileName(std::string_view stem, std::string_view ending) noexcept {
    if (stem.size() > NAME_MAX || ending.size() > NAME_MAX - stem.size()) return;
    std::copy(stem.begin(), stem.end(), text_.begin());
    std::copy(ending.begin(), ending.end(), text_.begin() + static_cast<std::ptrdiff_t>(stem.size()));
}

int open_in_folder(int folder, const char* name, int flags, UniqueFd* file) noexcept {
    int descriptor = -1;
    const int error = error_of([&] {
        return descriptor = ::openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    });
    if (error == 0) *file = UniqueFd(descriptor);
    return error;
}

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

int find_facts(int file, struct stat* facts) noexcept {
    return error_of([&] { return ::fstat(file, facts); });
}

int find_facts_in_folder(int folder, const char* name, struct stat* facts) noexcept {
    return error_of([&] { return ::fstatat(folder, name, facts, AT_SYMLINK_NOFOLLOW); });
}

bool is_missing(int folder, const char* name) noexcept {
    struct stat facts = {};
    return find_facts_in_folder(folder, name, &facts) == ENOENT;
}

int read_at(int file, std::uint64_t offset, Span<const Span<std::uint8_t>> parts, std::size_t* size) noexcept {
    *size = 0;
    if (parts.size() > kMaxParts) return EINVAL;
    Transfer transfer;
    for (const Span<std::uint8_t>& part : parts) transfer.add(part.data(), part.size());
    if (!has_place(offset, transfer.size())) return 0;  // past the end of any file
    const auto call = [file](const iovec* all, int count, off_t at) { return ::preadv(file, all, count, at); };
    return transfer.move(call, offset, size);
}

int read_at(int file, std::uint64_t offset, Span<std::uint8_t> buffer, std::size_t* size) noexcept {
    return read_at(file, offset, {&buffer, 1}, size);
}

int write_at(int file, std::uint64_t offset, Span<const ByteSpan> parts) noexcept {
    if (parts.size() > kMaxParts) return EINVAL;
    Transfer transfer;
    for (const ByteSpan& part : parts) {
        transfer.add(const_cast<std::uint8_t*>(part.data()), part.size());  // writev only reads
    }
    if (!has_place(offset, transfer.size())) return EFBIG;
    const auto call = [file](const iovec* all, int count, off_t at) { return ::pwritev(file, all, count, at); };
    std::size_t written = 0;
    const int error = transfer.move(call, offset, &written);
    // No file system writes nothing without an error; to repeat such a call would never end.
    return error == 0 && written < transfer.size() ? EIO : error;
}

int try_lock_file(int file) noexcept {
    return error_of([&] { return ::flock(file, LOCK_EX | LOCK_NB); });
}

int truncate_file(int file, std::uint64_t size) noexcept {
    return error_of([&] { return ::ftruncate(file, static_cast<off_t>(size)); });
}

int unlink_in_folder(int folder, const char* name) noexcept {
    return error_of([&] { return ::unlinkat(folder, name, 0); });
}

}  // namespace fastload
