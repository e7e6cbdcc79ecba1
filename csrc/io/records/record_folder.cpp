#include "io/records/record_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "io/file_facts.h"
#include "io/records/file_calls.h"
#include "io/records/record_directory.h"

namespace fastload {
namespace {

constexpr std::string_view kData = ".dat";
constexpr std::string_view kDirectory = ".dir";
constexpr std::string_view kTemporary = ".tmp";
constexpr const char* kLock = "lock";
constexpr std::size_t kEndingSize = 4;
constexpr std::size_t kDigits = 16;
constexpr std::uint64_t kBytesOfBlock = 512;  // the unit of st_blocks on every file system

// A lock file is replaced only after somebody removed it; take() gives up after this many replacements in a row.
constexpr int kMaxExchanges = 16;

std::string_view stem_of(std::string_view name) noexcept { return name.substr(0, name.size() - kEndingSize); }
std::string_view ending_of(std::string_view name) noexcept { return name.substr(name.size() - kEndingSize); }

bool is_digit(char letter) noexcept { return ('0' <= letter && letter <= '9') || ('a' <= letter && letter <= 'f'); }

// Returns whether `name` is the name of a record file of the kind.
bool has_form_of(std::string_view name, RecordKind kind) noexcept {
    const std::string_view begin = record_kind_name(kind);
    if (name.size() != begin.size() + 1 + kDigits + kEndingSize) return false;
    if (name.substr(0, begin.size()) != begin || name[begin.size()] != '-') return false;
    const std::string_view digits = name.substr(begin.size() + 1, kDigits);
    const std::string_view ending = ending_of(name);
    return std::all_of(digits.begin(), digits.end(), is_digit) &&
           (ending == kData || ending == kDirectory || ending == kTemporary);
}

// Opens the folder with a descriptor of its own: a shared descriptor would share its position in the listing.
int open_listing(int folder, DirectoryHandle* directory) noexcept {
    UniqueFd file;
    if (const int error = open_in_folder(folder, ".", O_RDONLY | O_DIRECTORY, &file); error != 0) return error;
    directory->reset(::fdopendir(file.get()));
    if (*directory == nullptr) return errno;
    file.release();
    return 0;
}

// Finds the bytes that one file takes on disk; 0 if it is gone meanwhile.
int find_used_bytes(int folder, const char* name, std::uint64_t* used_bytes) noexcept {
    struct stat facts = {};
    const int error = find_facts_in_folder(folder, name, &facts);
    // Some file systems count the blocks of new data seconds later.
    const std::uint64_t bytes = std::max(static_cast<std::uint64_t>(facts.st_blocks) * kBytesOfBlock,
                                         static_cast<std::uint64_t>(facts.st_size));
    *used_bytes = error == 0 ? bytes : 0;
    return error == ENOENT ? 0 : error;
}

// Lists the names that have the form of the kind, in no order, and adds up the space that files take.
int read_listing(int folder, RecordKind kind, std::vector<std::string>* names, FolderFiles* files) {
    DirectoryHandle directory;
    if (const int error = open_listing(folder, &directory); error != 0) return error;
    for (;;) {
        errno = 0;
        const dirent* const entry = ::readdir(directory.get());
        if (entry == nullptr) return errno;
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        std::uint64_t bytes = 0;
        if (const int error = find_used_bytes(folder, entry->d_name, &bytes); error != 0) return error;
        files->used_bytes += bytes;
        if (!has_form_of(name, kind)) continue;
        files->kind_bytes += bytes;
        names->emplace_back(name);
    }
}

// Sorts out the names of one stem, [begin, end), which are in order: .dat, .dir, .tmp. If a listing names a .dir twice,
// because it was replaced meanwhile, one of them is among the remains; it is not removed, because its .dat exists.
void sort_out(const std::string* begin, const std::string* end, FolderFiles* files) {
    const bool is_complete = end - begin >= 2 && ending_of(begin[0]) == kData && ending_of(begin[1]) == kDirectory;
    if (is_complete) files->complete.emplace_back(stem_of(*begin));
    files->remains.insert(files->remains.end(), is_complete ? begin + 2 : begin, end);
}

// Returns whether the file is a .dat of another format, about whose remains nothing is known.
bool is_foreign(int file) noexcept {
    RecordFileHead head;
    std::size_t size = 0;
    int error = read_at(file, 0, bytes_of_value(&head), &size);
    if (error != 0) return true;
    RecordFileHead expected;
    expected.kind = head.kind;
    expected.decoder_revision = head.decoder_revision;
    return judge_head(head, size, expected, &error) == RecordFileVerdict::kForeign;
}

// Locks a .dat for as long as `file` is open. Returns false if somebody writes to it, or if that cannot be known.
bool lock_data(int folder, std::string_view stem, UniqueFd* file) noexcept {
    TrustedFile opened;
    int error = 0;
    const RecordFileVerdict verdict =
        open_trusted_file(folder, FileName(stem, kData).c_str(), O_RDONLY, &opened, &error);
    if (verdict != RecordFileVerdict::kGood || try_lock_file(opened.descriptor.get()) != 0) return false;
    *file = std::move(opened.descriptor);
    return true;
}

// Returns whether a dead writer has left this .dat, .dir without a .dat, or temporary file. A listing is not a
// snapshot: it may lack a file that was published and released while it was read, so everything is checked again. If
// there is a .dat, `data` then holds its lock.
bool is_abandoned(int folder, std::string_view name, UniqueFd* data) noexcept {
    const std::string_view stem = stem_of(name);
    if (is_missing(folder, FileName(stem, kData).c_str())) return true;
    if (ending_of(name) == kDirectory || !lock_data(folder, stem, data)) return false;
    if (ending_of(name) == kTemporary) return true;
    return !is_foreign(data->get()) && is_missing(folder, FileName(stem, kDirectory).c_str());
}

int remove_abandoned(int folder, std::string_view name) noexcept {
    const FileName file_name(name, "");
    struct stat facts = {};
    UniqueFd data;
    int error = find_facts_in_folder(folder, file_name.c_str(), &facts);
    if (error == 0 && S_ISREG(facts.st_mode) && is_abandoned(folder, name, &data)) {
        error = unlink_in_folder(folder, file_name.c_str());
    }
    return error == ENOENT ? 0 : error;
}

// Returns whether the descriptor is of the file that has this name in the folder now.
bool is_still(int folder, const char* name, int file) noexcept {
    struct stat opened = {};
    struct stat named = {};
    return find_facts(file, &opened) == 0 && find_facts_in_folder(folder, name, &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

int open_lock(int folder, UniqueFd* file) noexcept {
    UniqueFd opened;
    if (const int error = open_in_folder(folder, kLock, O_RDWR | O_CREAT, &opened); error != 0) return error;
    struct stat facts = {};
    if (const int error = find_facts(opened.get(), &facts); error != 0) return error;
    if (!S_ISREG(facts.st_mode)) return EINVAL;
    *file = std::move(opened);
    return 0;
}

}  // namespace

int FolderLock::take(int folder, FolderLock* lock) noexcept {
    for (int i = 0; i < kMaxExchanges; ++i) {
        FolderLock taken;
        if (const int error = open_lock(folder, &taken.file_); error != 0) return error;
        const int error = error_of([&] { return ::flock(taken.file_.get(), LOCK_EX); });
        if (error != 0) return error;
        taken.process_ = ::getpid();
        if (!is_still(folder, kLock, taken.file_.get())) continue;  // removed meanwhile, so others may hold a new one
        *lock = std::move(taken);
        return 0;
    }
    return ESTALE;
}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(process_, other.process_);
    return *this;
}

FolderLock::~FolderLock() {
    // A child that was forked meanwhile has the descriptor, too; then closing this one alone does not unlock.
    if (file_.is_open() && process_ == ::getpid()) static_cast<void>(::flock(file_.get(), LOCK_UN));
}

int list_record_files(int folder, RecordKind kind, FolderFiles* files) {
    FolderFiles found;
    std::vector<std::string> names;
    if (const int error = read_listing(folder, kind, &names, &found); error != 0) return error;
    std::sort(names.begin(), names.end());
    const std::string* const end = names.data() + names.size();
    for (const std::string* begin = names.data(); begin != end;) {
        const auto is_other = [begin](const std::string& name) { return stem_of(name) != stem_of(*begin); };
        const std::string* const next = std::find_if(begin, end, is_other);
        sort_out(begin, next, &found);
        begin = next;
    }
    *files = std::move(found);
    return 0;
}

int find_folder_time(int folder, std::int64_t* mtime_ns) noexcept {
    struct stat facts = {};
    const int error = find_facts(folder, &facts);
    if (error == 0) *mtime_ns = nanoseconds_of(facts.st_mtim);
    return error;
}

int remove_remains(int folder, RecordKind kind) {
    FolderFiles files;
    if (const int error = list_record_files(folder, kind, &files); error != 0) return error;
    int first_error = 0;
    for (const std::string& name : files.remains) {
        const int error = remove_abandoned(folder, name);
        if (first_error == 0) first_error = error;
    }
    return first_error;
}

}  // namespace fastload
