// Starts of worker processes: signals meanwhile, and forks that share the objects of a data set.
#include "bindings/pybind.h"

#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/class.h"
#include "processes/held_signals.h"
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

// Handlers of signals that have come already run before this returns.
std::unique_ptr<HeldSignals> hold_signals(const std::vector<int>& signals) {
    auto held = std::make_unique<HeldSignals>(signals);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return held;
}

void release_signals(HeldSignals& held, const py::args&) {
    held.release();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace

void bind_worker_forks(py::module_& m) {
    Class<HeldSignals>(m, "HeldSignals")
        .def(py::init(&hold_signals), py::arg("signals"))
        .def("__enter__", [](const HeldSignals&) {})
        .def("__exit__", &release_signals);
    m.def("sharing_obstacle", &sharing_obstacle);
    m.def("estimate_objects", &estimate_objects, py::arg("roots"));
    m.def("fork_workers", &start_forks, py::arg("roots"), py::arg("num_workers"));
}

}  // namespace fastload
