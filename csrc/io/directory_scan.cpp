#include "io/directory_scan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"
#include "io/file_facts.h"

namespace fastload {
namespace {

DirectoryState state_of(const struct stat& facts) noexcept {
    return {nanoseconds_of(facts.st_mtim), nanoseconds_of(facts.st_ctim), static_cast<std::int64_t>(facts.st_ino)};
}

enum class EntryKind : std::uint8_t { kFile, kDirectory, kLinkedDirectory, kUnresolvedLink };

EntryKind kind_of_link(int directory, const char* name) noexcept {
    struct stat facts = {};
    if (::fstatat(directory, name, &facts, 0) != 0) return EntryKind::kUnresolvedLink;
    return S_ISDIR(facts.st_mode) ? EntryKind::kLinkedDirectory : EntryKind::kFile;
}

EntryKind kind_of(int directory, const dirent& entry) noexcept {
    if (entry.d_type == DT_DIR) return EntryKind::kDirectory;
    if (entry.d_type == DT_LNK) return kind_of_link(directory, entry.d_name);
    if (entry.d_type != DT_UNKNOWN) return EntryKind::kFile;
    struct stat facts = {};
    if (::fstatat(directory, entry.d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) return EntryKind::kUnresolvedLink;
    if (S_ISLNK(facts.st_mode)) return kind_of_link(directory, entry.d_name);
    return S_ISDIR(facts.st_mode) ? EntryKind::kDirectory : EntryKind::kFile;
}

// ASCII only.
char lower(char letter) noexcept {
    return 'A' <= letter && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool ends_with(std::string_view name, std::string_view lower_case_end) noexcept {
    if (name.size() < lower_case_end.size()) return false;
    const std::string_view end = name.substr(name.size() - lower_case_end.size());
    return std::equal(end.begin(), end.end(), lower_case_end.begin(),
                      [](char mine, char wanted) { return lower(mine) == wanted; });
}

bool is_wanted(std::string_view name, const std::vector<std::string>& extensions) noexcept {
    return extensions.empty() || std::any_of(extensions.begin(), extensions.end(),
                                             [&](const std::string& extension) { return ends_with(name, extension); });
}

bool is_ascii(std::string_view text) noexcept {
    return std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) < 128; });
}

void append_name(std::string_view name, DirectoryListing* listing) {
    listing->file_names.append(name);
    if (listing->file_names.size() > std::numeric_limits<std::uint32_t>::max()) {
        throw std::length_error("the names in one directory take more than 4 GiB");
    }
    listing->file_ends.push_back(static_cast<std::uint32_t>(listing->file_names.size()));
}

void select_and_sort(const std::vector<std::string>& extensions, DirectoryListing* listing) {
    const std::string all_names = std::move(listing->file_names);
    std::vector<std::string_view> names;
    std::size_t begin = 0;
    for (const std::uint32_t end : listing->file_ends) {
        const std::string_view name = std::string_view(all_names).substr(begin, end - begin);
        if (is_wanted(name, extensions)) names.push_back(name);
        begin = end;
    }
    std::sort(names.begin(), names.end());
    listing->file_names.clear();
    listing->file_ends.clear();
    for (const std::string_view name : names) append_name(name, listing);
}

void add_entry(const dirent& entry, EntryKind kind, DirectoryListing* listing) {
    if (kind == EntryKind::kDirectory || kind == EntryKind::kLinkedDirectory) {
        listing->directories.push_back({entry.d_name, kind == EntryKind::kLinkedDirectory});
        return;
    }
    if (kind == EntryKind::kUnresolvedLink) listing->has_unresolved_link = true;
    append_name(entry.d_name, listing);
}

DirectoryListing failed(int system_errno) {
    DirectoryListing listing;
    listing.system_errno = system_errno;
    return listing;
}

}  // namespace

bool read_state(const std::string& path, DirectoryState* state) noexcept {
    struct stat facts = {};
    if (::stat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return false;
    *state = state_of(facts);
    return true;
}

bool is_on_fuse(int fd) noexcept {
    struct statfs facts = {};
    return ::fstatfs(fd, &facts) == 0 && static_cast<std::uint32_t>(facts.f_type) == kFuse;
}

DirectoryListing list_directory(const std::string& path, const std::vector<std::string>& extensions) {
    const DirectoryHandle directory(::opendir(path.c_str()));
    if (directory == nullptr) return failed(errno);
    const int fd = ::dirfd(directory.get());
    struct stat facts = {};
    if (::fstat(fd, &facts) != 0) return failed(errno);
    DirectoryListing listing;
    listing.state = state_of(facts);
    listing.is_on_fuse = is_on_fuse(fd);
    for (;;) {
        errno = 0;
        const dirent* const entry = ::readdir(directory.get());
        if (entry == nullptr) break;
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") add_entry(*entry, kind_of(fd, *entry), &listing);
    }
    if (errno != 0) return failed(errno);
    listing.is_sorted = is_ascii(listing.file_names);
    if (listing.is_sorted) select_and_sort(extensions, &listing);
    return listing;
}

}  // namespace fastload
