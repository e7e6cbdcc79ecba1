// Copies of objects for worker threads.
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "python/object_copier.h"

namespace py = pybind11;

namespace fastload {
namespace {

Ref ref_of(const py::handle& object) { return Ref::borrow(object.ptr()); }

py::object object_of(Ref object) { return py::reinterpret_steal<py::object>(object.release()); }

py::tuple copy_objects(ObjectKinds& kinds, const py::tuple& roots, const py::object& context, std::size_t max_objects,
                       std::size_t max_elements) {
    ObjectCopier copier(kinds, context.ptr(), CopyLimits{max_objects, max_elements});
    CopiedObjects copied = copier.copy(roots.ptr());
    return py::make_tuple(object_of(std::move(copied.copies)), object_of(std::move(copied.finalized)),
                          object_of(std::move(copied.shared)));
}

}  // namespace

void bind_copier(py::module_& m) {
    Class<ObjectKinds>(m, "ObjectKinds")
        .def(py::init([](const py::object& kind_of, const py::tuple& always_shared) {
                 return std::make_unique<ObjectKinds>(ref_of(kind_of), ref_of(always_shared));
             }),
             py::arg("kind_of"), py::arg("always_shared"));
    m.def("copy_objects", &copy_objects, py::arg("kinds"), py::arg("roots"), py::arg("context"), py::kw_only(),
          py::arg("max_objects") = CopyLimits().max_objects, py::arg("max_elements") = CopyLimits().max_elements);
    m.def(
        "end_without_finalizers", [](const py::list& finalized) { end_without_finalizers(finalized.ptr()); },
        py::arg("finalized"));
}

}  // namespace fastload
