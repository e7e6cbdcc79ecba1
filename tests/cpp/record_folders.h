// Folders of record files for tests.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/unique_fd.h"
#include "check.h"
#include "io/records/record_directory.h"
#include "io/records/record_file.h"
#include "io/records/record_folder.h"

namespace fastload::testing {

constexpr std::uint32_t kDecoderRevision = 3;

// A folder that is removed at the end of the test with everything in it.
class RecordFolder {
  public:
    // Uses a folder where syncs cost nothing, if there is one: a disk takes milliseconds for each.
    RecordFolder() : RecordFolder(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") {}
    explicit RecordFolder(const std::string& parent) : path_(parent + "/fastload_records_XXXXXX") {
        CHECK(mkdtemp(path_.data()) != nullptr);
        descriptor_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    RecordFolder(const RecordFolder&) = delete;  // a place, not a value
    RecordFolder& operator=(const RecordFolder&) = delete;
    ~RecordFolder() {
        for (const std::string& name : names()) {
            if (::unlink(path(name).c_str()) != 0) ::rmdir(path(name).c_str());
        }
        ::rmdir(path_.c_str());
    }

    int descriptor() const { return descriptor_.get(); }
    std::string path(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }
    bool has(const std::string& name) const { return ::access(path(name).c_str(), F_OK) == 0; }

    // Returns the names in order.
    std::vector<std::string> names() const {
        std::vector<std::string> found;
        DIR* const directory = ::opendir(path_.c_str());
        while (directory != nullptr) {
            const dirent* const entry = ::readdir(directory);
            if (entry == nullptr) break;
            if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
                found.emplace_back(entry->d_name);
            }
        }
        if (directory != nullptr) ::closedir(directory);
        std::sort(found.begin(), found.end());
        return found;
    }
    std::string read(const std::string& name) const {
        std::ifstream file(path(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    // Replaces the contents of the file, or creates it.
    void write(const std::string& name, const std::string& contents, int mode = 0600) const {
        const int file = ::open(path(name).c_str(), O_CREAT | O_WRONLY | O_TRUNC, mode);
        CHECK(::write(file, contents.data(), contents.size()) == static_cast<ssize_t>(contents.size()));
        ::close(file);
    }

  private:
    std::string path_;
    UniqueFd descriptor_;
};

using RecordBytes = std::vector<std::uint8_t>;

inline HashKey store_key(std::uint64_t seed = 1) {
    std::mt19937_64 random(seed);
    HashKey key;
    for (std::uint64_t& word : key.words) word = random();
    return key;
}

inline ContentKey content_key(std::uint64_t number) {
    std::mt19937_64 random(number);
    return {{random(), random()}, 1000 + number};
}

inline RecordBytes record_bytes(std::uint64_t number, std::size_t size) {
    std::mt19937_64 random(~number);
    RecordBytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    return bytes;
}

// Returns `text` with some bytes replaced.
inline std::string with_bytes(std::string text, std::size_t offset, const std::string& bytes) {
    return text.replace(offset, bytes.size(), bytes);
}

template <typename Value>
std::string with_value(const std::string& text, std::size_t offset, const Value& value) {
    return with_bytes(text, offset, {reinterpret_cast<const char*>(&value), sizeof value});
}

inline ByteSpan view_of(const RecordBytes& bytes) { return {bytes.data(), bytes.size()}; }

// Returns `bytes` with a bit or a part changed, or with another end.
inline std::string damaged(std::string bytes, std::mt19937_64* random) {
    const auto below = [random](std::size_t count) { return static_cast<std::size_t>((*random)() % count); };
    const std::size_t size = std::min<std::size_t>(std::size_t{1} << below(9), bytes.size() / 2);
    const std::size_t first = below(bytes.size() - size + 1);
    const std::size_t second = below(bytes.size() - size + 1);
    switch (below(5)) {
        case 0:
            bytes[first] = static_cast<char>(bytes[first] ^ 1 << below(8));
            return bytes;
        case 1:
            return bytes.substr(0, below(bytes.size()));
        case 2:
            return bytes.replace(first, size, bytes.substr(second, size));
        case 3: {
            const std::string block = bytes.substr(first, size);
            bytes.replace(first, size, bytes.substr(second, size));
            return bytes.replace(second, size, block);
        }
        default:
            return bytes.replace(first, size, size, '\0');
    }
}

// A file that is being written, and the future contents of its .dir.
struct Written {
    RecordFileWriter writer;
    RecordDirectory directory;

    explicit Written(const RecordFolder& folder) {
        CHECK_EQUAL(RecordFileWriter::create(folder.descriptor(), RecordKind::kIndex, kDecoderRevision, &writer), 0);
        directory.id = writer.id();
        directory.covered_bytes = writer.end();
    }
    int append(std::uint64_t number, std::size_t size, std::uint32_t rank = 0) {
        const RecordBytes bytes = record_bytes(number, size);
        RecordPlace place;
        const ContentKey key = content_key(number);
        const int error = writer.append({key, static_cast<std::uint32_t>(size), rank}, view_of(bytes), &place);
        if (error == 0) directory.entries.push_back({key.hash, place.offset, place.size, rank});
        return error;
    }
    int publish(const RecordFolder& folder) {
        if (const int error = writer.sync(); error != 0) return error;
        std::sort(directory.entries.begin(), directory.entries.end(), comes_before);
        directory.covered_bytes = writer.end();
        ++directory.generation;
        return write_record_directory(folder.descriptor(), writer.name(), RecordKind::kIndex, kDecoderRevision,
                                      store_key(), directory);
    }
};

struct ReadDirectory {
    RecordFileVerdict verdict = RecordFileVerdict::kFailed;
    int error = 0;
    RecordDirectory directory;

    bool is_damaged() const { return verdict == RecordFileVerdict::kFailed && error == EBADMSG; }
};

inline ReadDirectory read_directory(const RecordFolder& folder, const std::string& name,
                                    RecordKind kind = RecordKind::kIndex) {
    ReadDirectory read;
    read.verdict = read_record_directory(folder.descriptor(), name, kind, kDecoderRevision, store_key(),
                                         &read.directory, &read.error);
    return read;
}

// Returns the bytes of a .dir with checksums that are right for them, however wrong the rest is.
inline std::string signed_directory(std::string bytes) {
    constexpr std::size_t kHeadBytes = 96;
    constexpr std::size_t kEntriesCheck = 64;
    constexpr std::size_t kHeadCheck = 80;
    const auto check_of = [&bytes](std::size_t begin, std::size_t end) {
        return content_hash(store_key(), {reinterpret_cast<const std::uint8_t*>(bytes.data()) + begin, end - begin});
    };
    bytes = with_value(bytes, kEntriesCheck, check_of(kHeadBytes, bytes.size()));
    return with_value(bytes, kHeadCheck, check_of(0, kHeadCheck));
}

struct OpenedFile {
    RecordFileVerdict verdict = RecordFileVerdict::kFailed;
    int error = 0;
    RecordFile file;
};

inline OpenedFile open_file(const RecordFolder& folder, const std::string& name) {
    OpenedFile opened;
    opened.verdict =
        RecordFile::open(folder.descriptor(), name, RecordKind::kIndex, kDecoderRevision, &opened.file, &opened.error);
    return opened;
}

struct ReadRecord {
    bool is_there = false;
    int error = 0;
    RecordHead head;
    RecordBytes bytes;
};

inline ReadRecord read_record(const RecordFile& file, const RecordPlace& place) {
    ReadRecord read;
    RecordBytes buffer(place.size);
    read.is_there = file.read(place, {buffer.data(), buffer.size()}, &read.head, &read.error);
    if (read.is_there) read.bytes = std::move(buffer);
    return read;
}

// Puts files that cannot be trusted under `name` in the folder, in turn, and calls `check` with the expected verdict.
template <typename Check>
void check_trust(const RecordFolder& folder, const std::string& name, const Check& check) {
    const auto [kGood, kUntrusted] = std::make_pair(RecordFileVerdict::kGood, RecordFileVerdict::kUntrusted);
    const std::string path = folder.path(name);
    const std::string aside = folder.path("aside");
    for (const auto& [mode, expected] : {std::make_pair(0600, kGood),
                                         {0400, kGood},
                                         {0644, kGood},
                                         {0620, kUntrusted},
                                         {0602, kUntrusted},
                                         {0666, kUntrusted}}) {
        CHECK(::chmod(path.c_str(), static_cast<mode_t>(mode)) == 0);
        check(expected);
    }
    CHECK(::chmod(path.c_str(), 0644) == 0);
    if (::geteuid() == 0 && ::chown(path.c_str(), 12345, 0) == 0) {  // there may be no other user than this root
        check(kUntrusted);
        CHECK(::chown(path.c_str(), 0, 0) == 0);
        CHECK(::chmod(folder.path().c_str(), 0755) == 0);
        CHECK(::seteuid(12345) == 0);  // this user trusts root
        check(kGood);
        CHECK(::seteuid(0) == 0);
    }
    CHECK(::rename(path.c_str(), aside.c_str()) == 0);
    CHECK(::symlink(aside.c_str(), path.c_str()) == 0);
    check(kUntrusted);
    ::unlink(path.c_str());
    CHECK(::mkfifo(path.c_str(), 0600) == 0);
    check(kUntrusted);
    ::unlink(path.c_str());
    CHECK(::mkdir(path.c_str(), 0700) == 0);
    check(kUntrusted);
    ::rmdir(path.c_str());
    CHECK(::rename(aside.c_str(), path.c_str()) == 0);
    check(kGood);
}

inline bool are_same(const RecordDirectory& a, const RecordDirectory& b) {
    const auto is_same_entry = [](const DirectoryEntry& one, const DirectoryEntry& other) {
        return one.hash == other.hash && one.offset == other.offset && one.size == other.size && one.rank == other.rank;
    };
    return a.id == b.id && a.generation == b.generation && a.covered_bytes == b.covered_bytes &&
           std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(), is_same_entry);
}

}  // namespace fastload::testing
