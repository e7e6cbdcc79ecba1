#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "io/directory_scan.h"
#include "io/folder_index.h"
#include "io/sample_index.h"
#include "temporary_folder.h"

namespace fastload {
namespace {

using namespace testing;

std::string text_of(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::string path_of(const SampleIndex& index, std::int64_t sample) {
    PathBuffer buffer;
    return text_of(index.path(sample, &buffer));
}

// A root with the empty directories "" and "b/", and "a/" with files x and yz, "c/" with file w.
struct SmallFolder {
    std::vector<DirectoryFacts> directories{{1, 2, 3, -1, 0}, {1, 2, 3, 0, 0}, {1, 2, 3, 1, 0}, {1, 2, 3, 2, 0}};
    std::vector<DirectoryStart> starts{{0, 0, 0}, {0, 0, 0}, {2, 3, 2}, {2, 3, 4}, {3, 4, 6}};
    std::string paths = "a/b/c/";
    std::vector<std::uint32_t> name_ends{1, 3, 1};
    std::string names = "xyzw";

    FolderArrays arrays() const {
        return {{directories.data(), directories.size()},
                {starts.data(), starts.size()},
                bytes_of(paths),
                {name_ends.data(), name_ends.size()},
                bytes_of(names)};
    }
    bool is_valid(std::size_t root_bytes = 5) const { return FolderIndex::is_valid(root_bytes, arrays()); }
};

template <typename Change>
bool is_valid_after(Change change) {
    SmallFolder folder;
    change(folder);
    return folder.is_valid();
}

}  // namespace

TEST_CASE(folder_index_refuses_arrays_that_lead_outside) {
    const auto with_start = [](std::size_t row, std::int64_t DirectoryStart::* column, std::int64_t value) {
        return is_valid_after([&](SmallFolder& folder) { folder.starts[row].*column = value; });
    };
    CHECK(!with_start(0, &DirectoryStart::sample, 1));
    CHECK(!with_start(1, &DirectoryStart::sample, -1));
    CHECK(!with_start(2, &DirectoryStart::sample, 4));
    CHECK(!with_start(4, &DirectoryStart::sample, 2));
    CHECK(!with_start(2, &DirectoryStart::name_byte, 2));
    CHECK(!with_start(4, &DirectoryStart::name_byte, 5));
    CHECK(!with_start(4, &DirectoryStart::path_byte, 7));
    CHECK(!with_start(2, &DirectoryStart::path_byte, 5));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.name_ends[0] = 4; }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.name_ends[1] = 0; }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.name_ends[2] = 2; }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.starts.pop_back(); }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.starts.clear(); }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.directories.clear(); }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.name_ends.pop_back(); }));
}

TEST_CASE(folder_index_refuses_paths_that_leave_the_root_or_contradict_each_other) {
    const auto with_paths = [](const char* paths) {
        return is_valid_after([&](SmallFolder& folder) { folder.paths = paths; });
    };
    CHECK(with_paths("a/c/b/"));  // the order of Python's strings, which is not checked here
    for (const char* paths : {"./b/c/", "../b/c", "//b/c/", "a/b/c.", "a/a/c/", "a/a/a/", "a/b/bb", "a/b/./"}) {
        CHECK(!with_paths(paths));
    }
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.paths[0] = '\0'; }));
    for (const char* names : {"/yzw", "x/zw", "x..w", "xyz.", "xyz/"}) {
        CHECK(!is_valid_after([&](SmallFolder& folder) { folder.names = names; }));
    }
    CHECK(is_valid_after([](SmallFolder& folder) { folder.names = "x.zw"; }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.names[1] = '\0'; }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.names += "v"; }));
    CHECK(!is_valid_after([](SmallFolder& folder) { folder.paths += "v"; }));
    for (std::size_t i = 0; i < 4; ++i) {
        for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{1} << 50, std::int64_t{4}}) {
            if (i == 0 && label == -1) continue;
            CHECK(!is_valid_after([&](SmallFolder& folder) { folder.directories[i].label = label; }));
        }
    }
}

TEST_CASE(folder_index_knows_the_directory_that_each_is_in) {
    const auto with_paths = [](const std::string& second, const std::string& third, std::int64_t label) {
        return is_valid_after([&](SmallFolder& folder) {
            folder.paths = "a/" + second + third;
            folder.starts[3].path_byte = static_cast<std::int64_t>(2 + second.size());
            folder.starts[4].path_byte = static_cast<std::int64_t>(folder.paths.size());
            folder.directories[2].label = 0;
            folder.directories[3].label = label;
        });
    };
    CHECK(with_paths("a/b/", "a/b/c/", 0));
    CHECK(with_paths("a/b/", "c/", 1));
    CHECK(!with_paths("a/b/", "c/", 0));
    CHECK(!with_paths("a/b/", "a/c/d/", 0));
    CHECK(!with_paths("a/b/", "a/b/", 0));
    CHECK(!with_paths("a/b/", "a/b/../", 0));
    CHECK(!with_paths("b/c/", "a/d/", 0));
}

TEST_CASE(folder_index_refuses_paths_longer_than_the_buffer) {
    const SmallFolder folder;
    CHECK(folder.is_valid(sizeof(PathBuffer) - 4));
    CHECK(!folder.is_valid(sizeof(PathBuffer) - 3));
    CHECK(!folder.is_valid(sizeof(PathBuffer) + 1));
    const std::string root(sizeof(PathBuffer) - 4, 'r');
    CHECK_EQUAL(path_of(FolderIndex(root, folder.arrays(), nullptr), 1).size(), sizeof(PathBuffer));
}

TEST_CASE(folder_index_knows_which_directories_changed) {
    TemporaryFolder root;
    for (const char* name : {"a", "b", "c"}) CHECK(::mkdir((root.path() + "/" + name).c_str(), 0700) == 0);
    SmallFolder folder;
    const char* const paths[] = {"", "/a", "/b", "/c"};
    for (std::size_t i = 0; i < 4; ++i) {
        DirectoryState state;
        CHECK(read_state(root.path() + paths[i], &state));
        folder.directories[i] = {state, 0, i == 1 ? 4 : 0};
    }
    const FolderIndex index(root.path() + "/", folder.arrays(), nullptr);
    const auto changed = [&](std::int64_t distrusted) { return index.changed_directories(0, 4, distrusted); };
    CHECK(changed(3).empty());
    CHECK((changed(4) == std::vector<std::size_t>{1}));
    folder.directories[2].state.ctime_ns += 1;
    CHECK((changed(3) == std::vector<std::size_t>{2}));
    folder.directories[3].state.inode += 1;
    CHECK((index.changed_directories(3, 4, 0) == std::vector<std::size_t>{3}));
    for (const char* name : {"a", "b", "c"}) CHECK(::rmdir((root.path() + "/" + name).c_str()) == 0);
    CHECK((changed(0) == std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST_CASE(listing_tells_of_a_link_that_leads_nowhere) {
    TemporaryFolder folder;
    CHECK(::symlink(folder.write("file.jpg", "").c_str(), folder.name("other.jpg").c_str()) == 0);
    CHECK(!list_directory(folder.path(), {}).has_unresolved_link);
    CHECK(::symlink("nowhere", folder.name("dangling.jpg").c_str()) == 0);
    CHECK(list_directory(folder.path(), {}).has_unresolved_link);
}

TEST_CASE(joined_index_skips_empty_parts) {
    const std::string arena = "abc";
    const std::int64_t two[] = {0, 1, 3};
    const std::int64_t none[] = {0};
    const auto full = std::make_shared<ArenaIndex>(bytes_of(arena), Span<const std::int64_t>(two, 3), nullptr);
    const auto empty = std::make_shared<ArenaIndex>(bytes_of(arena), Span<const std::int64_t>(none, 1), nullptr);
    const JoinedIndex index({empty, full, empty, empty, full, empty});
    CHECK_EQUAL(index.num_samples(), 4);
    CHECK(path_of(index, 0) == "a" && path_of(index, 1) == "bc" && path_of(index, 2) == "a" &&
          path_of(index, 3) == "bc");
    CHECK_EQUAL(JoinedIndex({}).num_samples(), 0);
}

}  // namespace fastload
