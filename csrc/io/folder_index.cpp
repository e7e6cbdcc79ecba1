#include "io/folder_index.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_set>

namespace fastload {
namespace {

bool is_inside(std::int64_t begin, std::int64_t end, std::size_t size) noexcept {
    return 0 <= begin && begin <= end && static_cast<std::uint64_t>(end) <= size;
}

bool is_dots(std::string_view name) noexcept { return name == "." || name == ".."; }

// True if a path made with `text` can only lead down.
bool is_name(std::string_view text) noexcept { return !text.empty() && !is_dots(text); }

std::string_view text_of(ByteSpan bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// True if the names of one directory fill its part of the names, each is a valid name, and none is longer than
// `max_name_bytes`.
bool has_valid_names(const FolderArrays& arrays, std::size_t directory, std::size_t max_name_bytes) noexcept {
    const DirectoryStart& start = arrays.starts[directory];
    const DirectoryStart& end = arrays.starts[directory + 1];
    const auto num_bytes = static_cast<std::uint64_t>(end.name_byte - start.name_byte);
    const char* const names = text_of(arrays.names).data() + start.name_byte;
    std::uint64_t previous = 0;
    for (std::int64_t sample = start.sample; sample < end.sample; ++sample) {
        const std::uint64_t name_end = arrays.name_ends[static_cast<std::size_t>(sample)];
        if (name_end < previous || name_end > num_bytes) return false;
        const std::uint64_t name_bytes = name_end - previous;
        if (name_bytes > max_name_bytes || !is_name({names + previous, name_bytes})) return false;
        previous = name_end;
    }
    return previous == num_bytes;
}

bool has_byte(ByteSpan bytes, char byte) noexcept {
    return !bytes.is_empty() && std::memchr(bytes.data(), byte, bytes.size()) != nullptr;
}

// The path of a directory with the '/' at its end; the root's is empty.
std::string_view path_with_slash(const FolderArrays& arrays, std::size_t directory) noexcept {
    const auto begin = static_cast<std::size_t>(arrays.starts[directory].path_byte);
    const auto end = static_cast<std::size_t>(arrays.starts[directory + 1].path_byte);
    return text_of(arrays.paths).substr(begin, end - begin);
}

// The same without the '/'; a path without one is taken for empty.
std::string_view path_of(const FolderArrays& arrays, std::size_t directory) noexcept {
    const std::string_view path = path_with_slash(arrays, directory);
    return path.empty() || path.back() != '/' ? std::string_view() : path.substr(0, path.size() - 1);
}

// True if the directories are the root, which has no files, and below it class after class, numbered from 0: the
// class's folder and then its contents, each directory once and after its parent.
bool is_tree(const FolderArrays& arrays) {
    if (arrays.directories[0].label != -1 || arrays.starts[1].sample != 0 || arrays.starts[1].path_byte != 0) {
        return false;
    }
    std::unordered_set<std::string_view> known;
    known.reserve(arrays.directories.size());
    std::string_view class_name;
    std::int64_t label = -1;
    for (std::size_t i = 1; i < arrays.directories.size(); ++i) {
        const std::string_view path = path_of(arrays, i);
        const std::size_t slash = path.rfind('/');
        if (slash == std::string_view::npos) {
            class_name = path;
            ++label;
        } else if (path.substr(0, path.find('/')) != class_name || known.count(path.substr(0, slash)) == 0) {
            return false;
        }
        // npos + 1 is 0
        if (!is_name(path.substr(slash + 1)) || arrays.directories[i].label != label) return false;
        if (!known.insert(path).second) return false;
    }
    return true;
}

std::size_t append(ByteSpan part, std::size_t size, PathBuffer* buffer) noexcept {
    if (!part.is_empty()) std::memcpy(buffer->data() + size, part.data(), part.size());
    return size + part.size();
}

}  // namespace

bool FolderIndex::is_valid(std::size_t root_bytes, const FolderArrays& arrays) {
    const std::size_t num_directories = arrays.directories.size();
    if (num_directories == 0 || arrays.starts.size() != num_directories + 1) return false;
    const DirectoryStart& first = arrays.starts[0];
    const DirectoryStart& last = arrays.starts[num_directories];
    if (first.sample != 0 || first.name_byte != 0 || first.path_byte != 0) return false;
    if (last.sample != static_cast<std::int64_t>(arrays.name_ends.size()) ||
        last.name_byte != static_cast<std::int64_t>(arrays.names.size()) ||
        last.path_byte != static_cast<std::int64_t>(arrays.paths.size())) {
        return false;
    }
    if (has_byte(arrays.names, '/') || has_byte(arrays.names, '\0') || has_byte(arrays.paths, '\0')) return false;
    for (std::size_t i = 0; i < num_directories; ++i) {
        const DirectoryStart& start = arrays.starts[i];
        const DirectoryStart& end = arrays.starts[i + 1];
        if (!is_inside(start.sample, end.sample, arrays.name_ends.size()) ||
            !is_inside(start.name_byte, end.name_byte, arrays.names.size()) ||
            !is_inside(start.path_byte, end.path_byte, arrays.paths.size())) {
            return false;
        }
        const std::size_t path_bytes = root_bytes + static_cast<std::size_t>(end.path_byte - start.path_byte);
        if (path_bytes > sizeof(PathBuffer)) return false;
        if (!has_valid_names(arrays, i, sizeof(PathBuffer) - path_bytes)) return false;
    }
    return is_tree(arrays);
}

ByteSpan FolderIndex::path(std::int64_t sample_index, PathBuffer* buffer) const noexcept {
    const auto is_after = [](std::int64_t sample, const DirectoryStart& start) { return sample < start.sample; };
    const DirectoryStart* const end =
        std::upper_bound(arrays_.starts.begin(), arrays_.starts.end(), sample_index, is_after);
    const DirectoryStart* const start = end - 1;
    const auto position = static_cast<std::size_t>(sample_index);
    const std::size_t name_begin = sample_index == start->sample ? 0 : arrays_.name_ends[position - 1];
    const std::size_t name_size = arrays_.name_ends[position] - name_begin;
    const auto path_begin = static_cast<std::size_t>(start->path_byte);
    std::size_t size = append({reinterpret_cast<const std::uint8_t*>(root_.data()), root_.size()}, 0, buffer);
    size =
        append(arrays_.paths.subspan(path_begin, static_cast<std::size_t>(end->path_byte) - path_begin), size, buffer);
    const std::size_t name_byte = static_cast<std::size_t>(start->name_byte) + name_begin;
    size = append(arrays_.names.subspan(name_byte, name_size), size, buffer);
    return {buffer->data(), size};
}

std::vector<std::size_t> FolderIndex::changed_directories(std::size_t begin, std::size_t end,
                                                          std::int64_t distrusted) const {
    std::vector<std::size_t> changed;
    for (std::size_t i = begin; i < end; ++i) {
        const DirectoryFacts& facts = arrays_.directories[i];
        DirectoryState now;
        const bool is_same = (facts.flags & distrusted) == 0 &&
                             read_state(root_ + std::string(path_with_slash(arrays_, i)), &now) && now == facts.state;
        if (!is_same) changed.push_back(i);
    }
    return changed;
}

}  // namespace fastload
