// Images of Pillow's.
#include "bindings/bindings.h"

namespace py = pybind11;

namespace fastload {
namespace {

// Puts `after` at `key` where `before` stands; false where something else does. In one step for other threads.
bool exchange_item(const py::dict& items, const py::str& key, const py::object& before, const py::object& after) {
    bool is_exchanged = false;
    int error = 0;
    // What stood there is let go of at the end: that may run code.
    py::object held;
#ifdef Py_GIL_DISABLED
    Py_BEGIN_CRITICAL_SECTION(items.ptr());
#endif
    held = py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(items.ptr(), key.ptr()));
    is_exchanged = held.ptr() == before.ptr();
    if (is_exchanged) error = PyDict_SetItem(items.ptr(), key.ptr(), after.ptr());
#ifdef Py_GIL_DISABLED
    Py_END_CRITICAL_SECTION();
#endif
    if (error != 0 || (held.ptr() == nullptr && PyErr_Occurred() != nullptr)) throw py::error_already_set();
    return is_exchanged;
}

}  // namespace

void bind_images(py::module_& m) {
    m.def("exchange_item", &exchange_item, py::arg("items"), py::arg("key"), py::arg("before"), py::arg("after"),
          "Puts `after` at `key` of a dict where `before` stands, in one step; whether it did.");
}

}  // namespace fastload
