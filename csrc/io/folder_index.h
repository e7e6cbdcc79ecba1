// The files of a folder: names by directory, without repeated paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/span.h"
#include "io/directory_scan.h"
#include "io/sample_index.h"

namespace fastload {

// The positions where the parts of one directory begin in the arrays of a FolderArrays.
struct DirectoryStart {
    std::int64_t sample;
    std::int64_t name_byte;
    std::int64_t path_byte;
};

// The stored metadata of one directory.
struct DirectoryFacts {
    DirectoryState state;
    std::int64_t label;
    std::int64_t flags;  // the caller's
};

// The arrays of an index file. Files of a directory follow each other, and so do their names; name i ends at name_byte
// + name_ends[i] and begins at the end of the previous name in its directory.
struct FolderArrays {
    Span<const DirectoryFacts> directories;
    Span<const DirectoryStart> starts;  // one more than directories; the last is the end
    ByteSpan paths;                     // below the root, each with a '/' at its end; the root's is empty
    Span<const std::uint32_t> name_ends;
    ByteSpan names;
};

// A million files take their names plus 4 bytes each; a directory takes 64 bytes and its path.
class FolderIndex final : public SampleIndex {
  public:
    // `root` is the prefix of every path. `owner` keeps the arrays alive. The caller has checked them with is_valid.
    FolderIndex(std::string root, const FolderArrays& arrays, std::shared_ptr<const void> owner)
        : root_(std::move(root)), arrays_(arrays), owner_(std::move(owner)) {}

    // True if everything lies inside of the arrays, every path fits a PathBuffer and leads to below `root`, and the
    // directories are the root and below it class after class, labelled from 0 on. Linear in the number of files and of
    // directories. May throw std::bad_alloc.
    static bool is_valid(std::size_t root_bytes, const FolderArrays& arrays);

    std::int64_t num_samples() const noexcept override { return static_cast<std::int64_t>(arrays_.name_ends.size()); }
    ByteSpan path(std::int64_t sample_index, PathBuffer* buffer) const noexcept override;

    std::size_t num_directories() const noexcept { return arrays_.directories.size(); }

    // The directories in [begin, end), end <= num_directories(), that have changed according to the system, or that
    // have one of the flags `distrusted`. One stat each. May throw std::bad_alloc.
    std::vector<std::size_t> changed_directories(std::size_t begin, std::size_t end, std::int64_t distrusted) const;

  private:
    std::string root_;
    FolderArrays arrays_;
    std::shared_ptr<const void> owner_;
};

}  // namespace fastload
