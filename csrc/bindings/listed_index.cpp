#include "bindings/listed_index.h"

#include <cstring>
#include <utility>

#include "bindings/python_token.h"

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

}  // namespace

bool ListedIndex::can_hold(const py::list& samples) {
    const Py_ssize_t size = PyList_GET_SIZE(samples.ptr());
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* const sample = PyList_GET_ITEM(samples.ptr(), i);
        if (!PyTuple_CheckExact(sample) || PyTuple_GET_SIZE(sample) != 2) return false;
        if (!is_plain_path(PyTuple_GET_ITEM(sample, 0)) || !is_plain_label(PyTuple_GET_ITEM(sample, 1))) return false;
    }
    return true;
}

ListedIndex::ListedIndex(py::list samples)
    : list_(samples.ptr()), num_samples_(PyList_GET_SIZE(samples.ptr())), owner_(make_token(std::move(samples))) {}

ByteSpan ListedIndex::path(std::int64_t sample_index, PathBuffer* /*buffer*/) const noexcept {
    return ascii_bytes(PyTuple_GET_ITEM(PyList_GET_ITEM(list_, sample_index), 0));
}

std::int64_t ListedIndex::label(std::int64_t sample_index) const {
    return PyLong_AsLongLong(PyTuple_GET_ITEM(PyList_GET_ITEM(list_, sample_index), 1));
}

}  // namespace fastload
