// Forked workers that share the objects of a data set.
#include "bindings/bindings.h"
#include "python/large_containers.h"
#include "python/sharable_types.h"
#include "python/worker_forks.h"

namespace py = pybind11;

namespace fastload {
namespace {

py::tuple estimate_objects(const py::tuple& roots) {
    const SharableTypes types;
    const LargeContainers containers(types, roots.ptr());
    const DataSetEstimate estimated = estimate(types, containers);
    return py::make_tuple(estimated.num_sharable, estimated.num_bytes);
}

py::object start_forks(const py::tuple& roots, int num_workers) {
    return py::reinterpret_steal<py::object>(fork_workers(roots.ptr(), num_workers).release());
}

}  // namespace

void bind_worker_forks(py::module_& m) {
    m.def("sharing_obstacle", &sharing_obstacle);
    m.def("estimate_objects", &estimate_objects, py::arg("roots"));
    m.def("fork_workers", &start_forks, py::arg("roots"), py::arg("num_workers"));
}

}  // namespace fastload
