// Arrays as an index file may hold them: where is_valid() takes them, every path lies inside of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "io/arena_index.h"
#include "io/folder_index.h"

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

void check_folder(Input input) {
    const std::string root(static_cast<std::size_t>(input.choose(256)), 'r');
    const std::size_t num_directories = static_cast<std::size_t>(input.choose(8));
    const auto directories = input.raw_array<DirectoryFacts>(num_directories);
    const auto starts = input.raw_array<DirectoryStart>(num_directories + 1);
    const auto paths = input.raw_array<std::uint8_t>(static_cast<std::size_t>(input.choose(256)));
    const auto name_ends = input.raw_array<std::uint32_t>(static_cast<std::size_t>(input.choose(32)));
    const auto names = input.raw_array<std::uint8_t>(static_cast<std::size_t>(input.choose(256)));
    const FolderArrays arrays = {span_of(directories), span_of(starts), span_of(paths), span_of(name_ends),
                                 span_of(names)};
    if (!FolderIndex::is_valid(root.size(), arrays)) return;
    const FolderIndex index(root, arrays, nullptr);
    require(index.num_directories() == directories.size());
    require(index.num_samples() == static_cast<std::int64_t>(name_ends.size()));
    read_paths(index);
    require(index.changed_directories(0, directories.size(), 0).size() <= directories.size());
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
    if (input.choose(2) == 0) {
        fastload::check_folder(input);
    } else {
        fastload::check_arena(input);
    }
    return 0;
}
