// Indexes of files, and the listing of directories.
#include "bindings/pybind.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/class.h"
#include "io/directory_scan.h"
#include "io/folder_index.h"
#include "io/sample_index.h"
#include "io/working_directory.h"
#include "python/without_gil.h"

namespace py = pybind11;

namespace fastload {
namespace {

ByteSpan ascii_bytes(PyObject* text) noexcept {
    const auto* const header = reinterpret_cast<const PyASCIIObject*>(text);
    return {reinterpret_cast<const std::uint8_t*>(header + 1), static_cast<std::size_t>(header->length)};
}

bool is_plain_path(PyObject* path) {
    if (!PyUnicode_CheckExact(path) || !PyUnicode_IS_COMPACT_ASCII(path)) return false;
    const ByteSpan bytes = ascii_bytes(path);
    return std::memchr(bytes.data(), '\0', bytes.size()) == nullptr;
}

bool is_plain_label(PyObject* label) {
    if (!PyLong_CheckExact(label)) return false;
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(label, &overflow);
    return overflow == 0;
}

// Note [listed samples]
// A list of samples is kept as it is instead of being copied into an arena. Threads read a path without the GIL:
// everything on the way to its bytes stays unchanged while its owner lives. The list is a private copy, a tuple keeps
// its items, and a str that is compact ASCII keeps its length in its header and its bytes after it. (Other strings
// would be read through fields that are written later, so a list with such strings is refused.)
class ListedIndex final : public SampleIndex {
  public:
    // True if `samples` consists of exact tuples of an exact str and an exact int that fits in 64 bits, and no path has
    // a character beyond ASCII or a NUL.
    static bool can_hold(const py::list& samples) {
        const Py_ssize_t size = PyList_GET_SIZE(samples.ptr());
        for (Py_ssize_t i = 0; i < size; ++i) {
            PyObject* const sample = PyList_GET_ITEM(samples.ptr(), i);
            if (!PyTuple_CheckExact(sample) || PyTuple_GET_SIZE(sample) != 2) return false;
            if (!is_plain_path(PyTuple_GET_ITEM(sample, 0))) return false;
            if (!is_plain_label(PyTuple_GET_ITEM(sample, 1))) return false;
        }
        return true;
    }

    // `samples` has passed can_hold, and nothing else can change it.
    explicit ListedIndex(py::list samples)
        : list_(samples.ptr()), num_samples_(PyList_GET_SIZE(samples.ptr())), owner_(make_token(std::move(samples))) {}

    std::int64_t num_samples() const noexcept override { return num_samples_; }

    ByteSpan path(std::int64_t sample_index, PathBuffer* /*buffer*/) const noexcept override {
        return ascii_bytes(PyTuple_GET_ITEM(PyList_GET_ITEM(list_, sample_index), 0));
    }

    // The label of a sample in [0, num_samples()). Call with the GIL.
    std::int64_t label(std::int64_t sample_index) const {
        return PyLong_AsLongLong(PyTuple_GET_ITEM(PyList_GET_ITEM(list_, sample_index), 1));
    }

  private:
    PyObject* const list_;
    const std::int64_t num_samples_;
    std::shared_ptr<const void> owner_;
};

// Objects kept by an index are released some time after its end; each new index releases the objects of earlier
// indexes.
std::shared_ptr<void> keep(py::object arrays) {
    run_deferred_releases();
    return make_token(std::move(arrays));
}

// Not converted: a converted copy would hide that an array is not what the caller thinks, and would not be shared.
template <typename T>
using Array = py::array_t<T, py::array::c_style>;

template <typename T>
Span<const T> span_of(const Array<T>& array) {
    return {array.data(), static_cast<std::size_t>(array.size())};
}

// The rows of `array`, int64 [n, fields of Row].
template <typename Row>
Span<const Row> rows_of(const Array<std::int64_t>& array) {
    constexpr py::ssize_t kColumns = sizeof(Row) / sizeof(std::int64_t);
    if (array.ndim() != 2 || array.shape(1) != kColumns) {
        throw py::value_error("expected rows of " + std::to_string(kColumns) + " int64");
    }
    return {reinterpret_cast<const Row*>(array.data()), static_cast<std::size_t>(array.shape(0))};
}

std::shared_ptr<SampleIndex> make_arena_index(const Array<std::uint8_t>& arena, const Array<std::int64_t>& offsets) {
    if (!ArenaIndex::is_valid(span_of(arena), span_of(offsets))) {
        throw py::value_error("offsets must begin at 0, not fall, and end inside the arena of " +
                              std::to_string(arena.size()) + " bytes");
    }
    return std::make_shared<ArenaIndex>(span_of(arena), span_of(offsets), keep(py::make_tuple(arena, offsets)));
}

std::shared_ptr<FolderIndex> make_folder_index(const std::string& root, const Array<std::int64_t>& directories,
                                               const Array<std::int64_t>& starts, const Array<std::uint8_t>& paths,
                                               const Array<std::uint32_t>& name_ends,
                                               const Array<std::uint8_t>& names) {
    FolderArrays arrays;
    arrays.directories = rows_of<DirectoryFacts>(directories);
    arrays.starts = rows_of<DirectoryStart>(starts);
    arrays.paths = span_of(paths);
    arrays.name_ends = span_of(name_ends);
    arrays.names = span_of(names);
    if (!FolderIndex::is_valid(root.size(), arrays)) throw py::value_error("the arrays do not describe a folder");
    return std::make_shared<FolderIndex>(root, arrays,
                                         keep(py::make_tuple(directories, starts, paths, name_ends, names)));
}

std::shared_ptr<SampleIndex> make_joined_index(const std::vector<std::shared_ptr<SampleIndex>>& parts) {
    return std::make_shared<JoinedIndex>(std::vector<std::shared_ptr<const SampleIndex>>(parts.begin(), parts.end()));
}

std::shared_ptr<ListedIndex> make_listed_index(const py::list& samples) {
    run_deferred_releases();
    if (!ListedIndex::can_hold(samples)) return nullptr;
    return std::make_shared<ListedIndex>(samples);
}

Array<std::int64_t> labels_of(const ListedIndex& index, const Array<std::int64_t>& sample_indices) {
    Array<std::int64_t> labels(sample_indices.size());
    for (py::ssize_t i = 0; i < sample_indices.size(); ++i) {
        const std::int64_t sample_index = sample_indices.data()[i];
        check_index(index, sample_index);
        labels.mutable_data()[i] = index.label(sample_index);
    }
    return labels;
}

std::vector<std::size_t> changed_directories(const FolderIndex& index, std::size_t begin, std::size_t end,
                                             std::int64_t distrusted) {
    if (begin > end || end > index.num_directories()) throw py::index_error("no such directories");
    return without_gil([&] { return index.changed_directories(begin, end, distrusted); });
}

py::dict describe(const DirectoryListing& listing) {
    py::list directories;
    for (const Subdirectory& directory : listing.directories) {
        directories.append(py::make_tuple(py::bytes(directory.name), directory.is_link));
    }
    py::dict fields;
    fields["errno"] = listing.system_errno;
    fields["state"] = py::make_tuple(listing.state.mtime_ns, listing.state.ctime_ns, listing.state.inode);
    fields["is_on_fuse"] = listing.is_on_fuse;
    fields["directories"] = std::move(directories);
    fields["names"] = py::bytes(listing.file_names);
    fields["name_ends"] =
        py::array_t<std::uint32_t>(static_cast<py::ssize_t>(listing.file_ends.size()), listing.file_ends.data());
    fields["is_sorted"] = listing.is_sorted;
    fields["has_unresolved_link"] = listing.has_unresolved_link;
    return fields;
}

py::list list_directories(const std::vector<std::string>& paths, const std::vector<std::string>& extensions) {
    const std::vector<DirectoryListing> listings = without_gil([&] {
        std::vector<DirectoryListing> all;
        for (const std::string& path : paths) all.push_back(list_directory(path, extensions));
        return all;
    });
    py::list described;
    for (const DirectoryListing& listing : listings) described.append(describe(listing));
    return described;
}

}  // namespace

void check_index(const SampleIndex& index, std::int64_t sample_index) {
    if (sample_index >= 0 && sample_index < index.num_samples()) return;
    throw py::index_error("sample index " + std::to_string(sample_index) + " is not in [0, " +
                          std::to_string(index.num_samples()) + ")");
}

py::bytes path_of(const SampleIndex& index, std::int64_t sample_index) {
    check_index(index, sample_index);
    PathBuffer buffer;
    return bytes_of(index.path(sample_index, &buffer));
}

void bind_sources(py::module_& m) {
    Class<SampleIndex, std::shared_ptr<SampleIndex>>(m, "SampleIndex")
        .def(py::init(&make_arena_index), py::arg("arena").noconvert(), py::arg("offsets").noconvert())
        .def_static("joined", &make_joined_index, py::arg("parts"))
        .def("__len__", &SampleIndex::num_samples)
        .def("path", &path_of, py::arg("sample_index"));

    Class<FolderIndex, SampleIndex, std::shared_ptr<FolderIndex>>(m, "FolderIndex")
        .def(py::init(&make_folder_index), py::kw_only(), py::arg("root"), py::arg("directories").noconvert(),
             py::arg("starts").noconvert(), py::arg("paths").noconvert(), py::arg("name_ends").noconvert(),
             py::arg("names").noconvert())
        .def("changed_directories", &changed_directories, py::arg("begin"), py::arg("end"), py::arg("distrusted"));

    Class<ListedIndex, SampleIndex, std::shared_ptr<ListedIndex>>(m, "ListedIndex")
        .def_static("of", &make_listed_index, py::arg("samples"),
                    "Makes an index that reads from the list, which must not be changed any more. Returns None if a\n"
                    "sample is not exactly a tuple of an ASCII str and an int of 64 bits.")
        .def("labels_of", &labels_of, py::arg("sample_indices"));

    Class<WorkingDirectory, std::shared_ptr<WorkingDirectory>>(m, "WorkingDirectory")
        .def(py::init())
        .def("fileno", &WorkingDirectory::descriptor);
    m.def("own_working_directory", &own_working_directory);

    m.def("list_directories", &list_directories, py::arg("paths"), py::arg("extensions"),
          "Lists each directory with the GIL released. Returns a FolderListing (fastload/_core.pyi) for each.");
    m.def("is_on_fuse", &is_on_fuse, py::arg("fd"));
}

}  // namespace fastload
