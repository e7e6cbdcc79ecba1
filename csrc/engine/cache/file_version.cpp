#include "engine/cache/file_version.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <limits>
#include <new>

#include "base/unique_fd.h"
#include "codec/jpeg/record_reader.h"
#include "image/plan/pixel_record.h"
#include "io/working_directory.h"

namespace fastload {
namespace {

// More numbers that statfs() gives: man 2 statfs, and the kernel's linux/magic.h.
constexpr std::uint32_t kServed[] = {
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF534D42,  // CIFS
    0xFE534D42,  // SMB 2
    0x00C36400,  // Ceph
    0x5346414F,  // AFS
    0x6B414653,  // AFS, the kernel's other one
    0x73757245,  // Coda
    0x01021997,  // 9P
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x7461636F,  // OCFS2
    0x01161970,  // GFS2
    0x19830326,  // BeeGFS
    0x786F4256,  // VirtualBox
    0x20030528,  // OrangeFS
};

FileSystemKind ask(int directory, const char* name) {
    const UniqueFd named(*name == '\0' ? -1 : ::openat(directory, name, O_PATH | O_CLOEXEC));
    struct statfs facts = {};
    if (::fstatfs(*name == '\0' ? directory : named.get(), &facts) != 0) return FileSystemKind::kProgram;
    const auto type = static_cast<std::uint32_t>(facts.f_type);
    if (type == kFuse) return FileSystemKind::kProgram;
    for (const std::uint32_t served : kServed) {
        if (type == served) return FileSystemKind::kServed;
    }
    return FileSystemKind::kLocal;
}

struct Stamp {
    FileFacts facts;
    ContentKey contents;
};
static_assert(sizeof(Stamp) <= sizeof(RecordStamp));

// A path without empty and "." parts: the same file may be named with them or without.
class AbsolutePath {
  public:
    // Begins with `path`; a relative one lies in `directory`, or in the thread's current one if that is null. Returns
    // false if there is no absolute path.
    bool begin(ByteSpan path, const WorkingDirectory* directory) noexcept {
        if (path.is_empty()) return false;
        if (path[0] == '/') return append(path);
        char current[PATH_MAX];
        const char* const folder = directory == nullptr ? ::getcwd(current, sizeof current) : directory->path();
        return folder != nullptr && *folder == '/' &&
               append({reinterpret_cast<const std::uint8_t*>(folder), std::strlen(folder)}) && append(path);
    }
    // False where it becomes too long.
    bool append_hash(const StepsHash& steps) noexcept {
        if (1 + steps.size() > sizeof bytes_ - size_) return false;
        bytes_[size_] = 0;  // which no path has
        std::memcpy(bytes_ + size_ + 1, steps.data(), steps.size());
        size_ += 1 + steps.size();
        return true;
    }
    ByteSpan bytes() const noexcept { return {bytes_, size_}; }

  private:
    // False where it becomes too long.
    bool append(ByteSpan path) noexcept {
        for (const std::uint8_t* part = path.begin(); part < path.end();) {
            const std::uint8_t* const end = std::find(part, path.end(), std::uint8_t{'/'});
            const auto size = static_cast<std::size_t>(end - part);
            if (size != 0 && !(size == 1 && *part == '.')) {
                if (size + 1 > sizeof bytes_ - size_) return false;
                bytes_[size_] = '/';
                std::memcpy(bytes_ + size_ + 1, part, size);
                size_ += size + 1;
            }
            part = end + 1;
        }
        return true;
    }

    std::uint8_t bytes_[2 * PATH_MAX];
    std::size_t size_ = 0;
};

bool find_stat(const SystemPath& file, struct stat* found) noexcept {
    int result = -1;
    do {
        result = ::fstatat(file.directory, file.name, found, 0);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

// Opens the file, so that a client asks its file server instead of answering from memory.
bool find_opened_facts(const SystemPath& file, FileFacts* facts) noexcept {
    const UniqueFd opened(::openat(file.directory, file.name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    struct stat found = {};
    if (!opened.is_open() || ::fstat(opened.get(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
    *facts = facts_of(found);
    return true;
}

bool is_whole_pixel_record(const HashKey& secret, const ContentKey& key, ByteSpan record) noexcept {
    PixelRecordReader reader;
    std::uint8_t* const place = reader.reserve(record.size());
    if (place == nullptr) return false;
    std::memcpy(place, record.data(), record.size());
    return reader.open(secret, key.hash.high, std::numeric_limits<std::uint64_t>::max()).is_ok();
}

bool is_whole_coefficient_record(const HashKey& secret, const ContentKey& key, ByteSpan record) noexcept {
    DecodeLimits limits;
    limits.max_pixels = std::numeric_limits<std::uint64_t>::max();
    jpeg::MemoryBytes bytes(record);
    jpeg::RecordReader reader;
    if (!reader.open(&bytes, secret, key.hash.high, limits).is_ok()) return false;
    const ImageSize size = reader.frame().size;
    return reader.read_rows(&bytes, secret, {0, 0, size.width, size.height}).is_ok();
}

}  // namespace

FileSystemKind FileSystemKinds::find(dev_t device, int directory, const char* name) noexcept {
    const std::uint64_t tag = std::uint64_t{device} << 2;
    for (const std::atomic<std::uint64_t>& known : known_) {
        const std::uint64_t value = known.load(std::memory_order_relaxed);
        if (value != 0 && (value & ~std::uint64_t{3}) == tag) return static_cast<FileSystemKind>((value & 3) - 1);
    }
    const FileSystemKind kind = ask(directory, name);
    for (std::atomic<std::uint64_t>& known : known_) {
        std::uint64_t none = 0;
        if (known.compare_exchange_strong(none, tag | (static_cast<std::uint64_t>(kind) + 1))) break;
    }
    return kind;
}

std::string absolute_path(ByteSpan path, const WorkingDirectory* directory) noexcept {
    AbsolutePath absolute;
    if (!absolute.begin(path, directory)) return {};
    try {
        return {reinterpret_cast<const char*>(absolute.bytes().data()), absolute.bytes().size()};
    } catch (const std::bad_alloc&) {
        return {};
    }
}

bool is_whole_file_record(RecordKind kind, const HashKey& secret, const ContentKey& key, ByteSpan record) noexcept {
    return kind == RecordKind::kPixels ? is_whole_pixel_record(secret, key, record)
                                       : is_whole_coefficient_record(secret, key, record);
}

bool find_file_key(const HashKey& secret, ByteSpan path, const WorkingDirectory* directory, const StepsHash& steps,
                   ContentKey* key) noexcept {
    AbsolutePath absolute;
    if (!absolute.begin(path, directory) || (steps != StepsHash{} && !absolute.append_hash(steps))) return false;
    *key = {content_hash(secret, absolute.bytes()), absolute.bytes().size()};
    return true;
}

bool find_file_facts(ByteSpan path, const WorkingDirectory* directory, FileSystemKinds* file_systems, FileFacts* facts,
                     FileSystemKind* kind) noexcept {
    SystemPath file;
    struct stat found = {};
    if (!find_system_path(path, directory, &file).is_ok() || !find_stat(file, &found) || !S_ISREG(found.st_mode)) {
        return false;
    }
    *facts = facts_of(found);
    *kind = file_systems->find(found.st_dev, file.directory, file.name);
    return *kind != FileSystemKind::kServed || find_opened_facts(file, facts);
}

RecordStamp stamp_of(const HashKey& secret, const FileFacts& facts, ByteSpan contents) noexcept {
    const Stamp stamp = {facts, {content_hash(secret, contents), contents.size()}};
    RecordStamp bytes = {};
    std::memcpy(bytes.data(), &stamp, sizeof stamp);
    return bytes;
}

FileFacts facts_in(const RecordStamp& stamp) noexcept {
    Stamp noted;
    std::memcpy(&noted, stamp.data(), sizeof noted);
    return noted.facts;
}

bool is_of_contents(const HashKey& secret, const RecordStamp& stamp, ByteSpan contents) noexcept {
    Stamp noted;
    std::memcpy(&noted, stamp.data(), sizeof noted);
    return noted.contents.length == contents.size() && noted.contents.hash == content_hash(secret, contents);
}

}  // namespace fastload
