#include "io/folder_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fastload {
namespace {

bool is_inside(std::int64_t begin, std::int64_t end, std::size_t size) noexcept {
    return 0 <= begin && begin <= end && static_cast<std::uint64_t>(end) <= size;
}

// Whether the names of one directory lie inside of it, none longer than `max_name_bytes`.
bool has_valid_names(const FolderArrays& arrays, std::size_t directory, std::size_t max_name_bytes) noexcept {
    const DirectoryStart& start = arrays.starts[directory];
    const DirectoryStart& end = arrays.starts[directory + 1];
    std::uint64_t previous = 0;
    for (std::int64_t sample = start.sample; sample < end.sample; ++sample) {
        const std::uint64_t name_end = arrays.name_ends[static_cast<std::size_t>(sample)];
        if (name_end < previous || name_end - previous > max_name_bytes) return false;
        previous = name_end;
    }
    return previous <= static_cast<std::uint64_t>(end.name_byte - start.name_byte);
}

std::size_t append(ByteSpan part, std::size_t size, PathBuffer* buffer) noexcept {
    if (!part.is_empty()) std::memcpy(buffer->data() + size, part.data(), part.size());
    return size + part.size();
}

}  // namespace

FolderIndex::FolderIndex(std::string root, const FolderArrays& arrays, std::shared_ptr<const void> owner)
    : root_(std::move(root)), arrays_(arrays), owner_(std::move(owner)) {}

bool FolderIndex::is_valid(std::size_t root_bytes, const FolderArrays& arrays) noexcept {
    const std::size_t num_directories = arrays.directories.size();
    if (arrays.starts.size() != num_directories + 1 || arrays.starts[0].sample != 0) return false;
    if (arrays.starts[num_directories].sample != static_cast<std::int64_t>(arrays.name_ends.size())) return false;
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
    return true;
}

std::int64_t FolderIndex::num_samples() const noexcept { return static_cast<std::int64_t>(arrays_.name_ends.size()); }

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
        const DirectoryState then{facts.mtime_ns, facts.ctime_ns, facts.inode};
        DirectoryState now;
        const bool is_same = (facts.flags & distrusted) == 0 && read_state(directory_path(i), &now) && now == then;
        if (!is_same) changed.push_back(i);
    }
    return changed;
}

std::string FolderIndex::directory_path(std::size_t directory) const {
    const auto begin = static_cast<std::size_t>(arrays_.starts[directory].path_byte);
    const auto end = static_cast<std::size_t>(arrays_.starts[directory + 1].path_byte);
    return root_ + std::string(reinterpret_cast<const char*>(arrays_.paths.data()) + begin, end - begin);
}

}  // namespace fastload
