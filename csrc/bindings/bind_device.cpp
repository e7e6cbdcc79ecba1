#include "bindings/bind_device.h"

#include <memory>
#include <stdexcept>
#include <string>

#include "bindings/without_gil.h"
#include "cuda/cuda_backend.h"
#include "device/backend.h"

namespace py = pybind11;

namespace fastload {
namespace {

std::shared_ptr<DeviceBackend> open_cuda_device(int runtime_major, int device) {
    std::string problem;
    std::shared_ptr<DeviceBackend> backend =
        without_gil([&] { return open_cuda_backend(runtime_major, device, &problem); });
    if (backend == nullptr) throw std::runtime_error(problem);
    return backend;
}

void stay_in_thread(DeviceBackend& backend) {
    const DeviceStatus status = without_gil([&] {
        DeviceBackend::ThreadState before;
        return backend.enter_thread(&before);
    });
    if (status.is_ok()) return;
    throw std::runtime_error(std::string(status.call) + " failed: " + status.name + " (" + status.text + ")");
}

}  // namespace

void bind_device(py::module_& m) {
    py::class_<DeviceBackend, std::shared_ptr<DeviceBackend>>(m, "DeviceBackend")
        .def("stay_in_thread", &stay_in_thread);
    m.def("open_cuda_device", &open_cuda_device, py::arg("runtime_major"), py::arg("device"));
}

}  // namespace fastload
