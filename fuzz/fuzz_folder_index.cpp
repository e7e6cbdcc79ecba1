// Arrays that an index file may hold: if is_valid() accepts them, every path lies inside of them and leads to below the
// root.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "io/folder_index.h"
#include "io/sample_index.h"

namespace fastload {
namespace {

using fuzzing::Input;
using fuzzing::require;

template <typename Value>
Span<const Value> span_of(const std::vector<Value>& values) noexcept {
    return {values.data(), values.size()};
}

// Reads every byte of every path, so that the address sanitizer sees one outside.
void read_paths(const SampleIndex& index) {
    PathBuffer buffer;
    for (std::int64_t sample = 0; sample < index.num_samples(); ++sample) {
        const ByteSpan path = index.path(sample, &buffer);
        require(path.size() <= buffer.size());
        std::vector<std::uint8_t> copy(path.begin(), path.end());
        require(copy.size() == path.size());
    }
}

struct Folder {
    std::string root;
    std::vector<DirectoryFacts> directories;
    std::vector<DirectoryStart> starts;
    std::vector<std::uint8_t> paths;
    std::vector<std::uint32_t> name_ends;
    std::vector<std::uint8_t> names;
};

Folder any_folder(Input* input) {
    Folder folder;
    folder.root.assign(static_cast<std::size_t>(input->choose(256)), 'r');
    const std::size_t num_directories = static_cast<std::size_t>(input->choose(8));
    folder.directories = input->raw_array<DirectoryFacts>(num_directories);
    folder.starts = input->raw_array<DirectoryStart>(num_directories + 1);
    folder.paths = input->raw_array<std::uint8_t>(static_cast<std::size_t>(input->choose(256)));
    folder.name_ends = input->raw_array<std::uint32_t>(static_cast<std::size_t>(input->choose(32)));
    folder.names = input->raw_array<std::uint8_t>(static_cast<std::size_t>(input->choose(256)));
    return folder;
}

// Appends up to four letters, mostly so that the result can be a name.
void append_text(Input* input, std::vector<std::uint8_t>* text) {
    static constexpr char kLetters[] = "abababab./";  // and the NUL at its end
    for (int left = input->choose(5); left > 0; --left) {
        text->push_back(static_cast<std::uint8_t>(kLetters[input->choose(sizeof(kLetters))]));
    }
}

// Offsets that fit, and for each directory a path that may lie below the previous one's. Random bytes are hardly ever a
// folder.
Folder likely_folder(Input* input) {
    Folder folder;
    folder.root = "root/";
    folder.starts.push_back({0, 0, 0});
    folder.directories.push_back({{0, 0, 0}, -1, 0});
    folder.starts.push_back({0, 0, 0});
    std::vector<std::uint8_t> path;
    std::int64_t label = -1;
    for (int left = input->choose(6); left > 0; --left) {
        if (input->choose(2) == 0 || label < 0) {
            path.clear();
            ++label;
        }
        append_text(input, &path);
        path.push_back('/');
        folder.paths.insert(folder.paths.end(), path.begin(), path.end());
        std::size_t begin = folder.names.size();
        for (int files = input->choose(4); files > 0; --files) {
            append_text(input, &folder.names);
            folder.name_ends.push_back(static_cast<std::uint32_t>(folder.names.size() - begin));
        }
        folder.directories.push_back({{0, 0, 0}, input->choose(16) == 0 ? input->choose(8) : label, 0});
        folder.starts.push_back({static_cast<std::int64_t>(folder.name_ends.size()),
                                 static_cast<std::int64_t>(folder.names.size()),
                                 static_cast<std::int64_t>(folder.paths.size())});
    }
    return folder;
}

// Every part of the path below the root is a valid name.
void require_below(const std::string& root, const SampleIndex& index) {
    PathBuffer buffer;
    for (std::int64_t sample = 0; sample < index.num_samples(); ++sample) {
        const ByteSpan bytes = index.path(sample, &buffer);
        const std::string path(bytes.begin(), bytes.end());
        require(path.compare(0, root.size(), root) == 0 && path.find('\0') == std::string::npos);
        std::size_t num_parts = 0;
        for (std::size_t begin = root.size(), end = 0; end != std::string::npos; begin = end + 1, ++num_parts) {
            end = path.find('/', begin);
            const std::string part = path.substr(begin, end == std::string::npos ? end : end - begin);
            require(!part.empty() && part != "." && part != "..");
        }
        require(num_parts >= 2);
    }
}

void check_folder(const Folder& folder) {
    const FolderArrays arrays = {span_of(folder.directories), span_of(folder.starts), span_of(folder.paths),
                                 span_of(folder.name_ends), span_of(folder.names)};
    if (!FolderIndex::is_valid(folder.root.size(), arrays)) return;
    const FolderIndex index(folder.root, arrays, nullptr);
    require(index.num_directories() == folder.directories.size());
    require(index.num_samples() == static_cast<std::int64_t>(folder.name_ends.size()));
    read_paths(index);
    require_below(folder.root, index);
    require(index.changed_directories(0, folder.directories.size(), 0).size() <= folder.directories.size());
}

void check_arena(Input input) {
    const auto offsets = input.raw_array<std::int64_t>(static_cast<std::size_t>(input.choose(32)));
    const auto arena = input.raw_array<std::uint8_t>(static_cast<std::size_t>(input.choose(256)));
    if (!ArenaIndex::is_valid(span_of(arena), span_of(offsets))) return;
    const ArenaIndex index(span_of(arena), span_of(offsets), nullptr);
    for (std::int64_t sample = 0; sample < index.num_samples(); ++sample) {
        const ByteSpan path = index.path(sample, nullptr);
        require(path.size() <= arena.size());
        const std::vector<std::uint8_t> copy(path.begin(), path.end());
    }
}

}  // namespace
}  // namespace fastload

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fastload::fuzzing::Input input({data, size});
    switch (input.choose(3)) {
        case 0:
            fastload::check_folder(fastload::any_folder(&input));
            break;
        case 1:
            fastload::check_folder(fastload::likely_folder(&input));
            break;
        default:
            fastload::check_arena(input);
    }
    return 0;
}
