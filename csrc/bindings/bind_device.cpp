#include "bindings/bind_device.h"

#include <Python.h>
#include <cxxabi.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/python_token.h"
#include "bindings/without_gil.h"
#include "cuda/cuda_backend.h"
#include "device/backend.h"
#include "device/emulated_device.h"

namespace py = pybind11;

namespace fastload {
namespace {

void check(const DeviceStatus& status) {
    if (status.is_ok()) return;
    throw std::runtime_error(std::string(status.call) + " failed: " + status.name + " (" + status.text + ")");
}

// Calls body(backend), which returns a DeviceStatus, at the device and without the GIL.
template <typename Body>
void call(DeviceBackend& backend, Body body) {
    check(without_gil([&] {
        const DeviceScope scope(backend);
        return scope.status().is_ok() ? body() : scope.status();
    }));
}

std::shared_ptr<DeviceBackend> open_cuda_device(int runtime_major, int device) {
    std::string problem;
    std::shared_ptr<DeviceBackend> backend =
        without_gil([&] { return open_cuda_backend(runtime_major, device, &problem); });
    if (backend == nullptr) throw std::runtime_error(problem);
    return backend;
}

void stay_in_thread(DeviceBackend& backend) {
    check(without_gil([&] {
        DeviceBackend::ThreadState before;
        return backend.enter_thread(&before);
    }));
}

EventId create_event(DeviceBackend& backend) {
    EventId event = 0;
    call(backend, [&] { return backend.create_event(&event); });
    return event;
}

void destroy_event(DeviceBackend& backend, EventId event) {
    call(backend, [&] {
        backend.destroy_event(event);
        return DeviceStatus{};
    });
}

void copy_to_device(DeviceBackend& backend, std::uintptr_t to, std::uintptr_t from, std::size_t size_bytes,
                    StreamId stream) {
    call(backend, [&] {
        return backend.copy_to_device(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size_bytes,
                                      stream);
    });
}

void record_event(DeviceBackend& backend, EventId event, StreamId stream) {
    call(backend, [&] { return backend.record_event(event, stream); });
}

bool query_event(DeviceBackend& backend, EventId event) {
    bool is_done = false;
    call(backend, [&] { return backend.query_event(event, &is_done); });
    return is_done;
}

// Takes the GIL in a thread that let go of it, for a scope. Where the interpreter shuts down meanwhile, the thread
// stays here for ever, as in without_gil.
class WithGil {
  public:
    WithGil() {
        try {
            state_ = PyGILState_Ensure();
        } catch (const abi::__forced_unwind&) {
            for (;;) ::pause();
        }
    }
    ~WithGil() { PyGILState_Release(state_); }
    WithGil(const WithGil&) = delete;  // a scope, not a value
    WithGil& operator=(const WithGil&) = delete;

  private:
    PyGILState_STATE state_{};
};

void enqueue(EmulatedDevice& device, StreamId stream, py::function function) {
    std::shared_ptr<void> token = make_token(std::move(function));
    device.enqueue(stream, [token = std::move(token)] {
        const WithGil gil;
        try {
            object_of(token)();
        } catch (const abi::__forced_unwind&) {
            for (;;) ::pause();  // the interpreter shuts down, and the function asked for the GIL again
        }
    });
    run_deferred_releases();
}

// Steps without the GIL, which kernels take, and lets go of the kernels that are over.
template <typename Body>
auto stepping(Body body) {
    struct Release {
        ~Release() { run_deferred_releases(); }
    } const release;
    return without_gil(body);
}

template <typename Body>
void stepping_all(Body body) {
    stepping([&] {
        body();
        return true;
    });
}

}  // namespace

void bind_device(py::module_& m) {
    py::class_<DeviceBackend, std::shared_ptr<DeviceBackend>>(m, "DeviceBackend")
        .def("stay_in_thread", &stay_in_thread)
        .def("create_event", &create_event)
        .def("destroy_event", &destroy_event, py::arg("event"))
        .def("copy_to_device", &copy_to_device, py::arg("to_address"), py::arg("from_address"), py::arg("nbytes"),
             py::arg("stream"))
        .def("record_event", &record_event, py::arg("event"), py::arg("stream"))
        .def("query_event", &query_event, py::arg("event"));
    m.def("open_cuda_device", &open_cuda_device, py::arg("runtime_major"), py::arg("device"));

    using Device = EmulatedDevice;
    py::class_<Device, DeviceBackend, std::shared_ptr<Device>>(m, "EmulatedDevice")
        .def(py::init<>())
        .def("create_stream", &Device::create_stream)
        .def("enqueue", &enqueue, py::arg("stream"), py::arg("function"))
        .def("wait_event", &Device::wait_event, py::arg("stream"), py::arg("event"))
        .def("enqueue_fault", &Device::enqueue_fault, py::arg("stream"), py::arg("error"))
        .def(
            "step", [](Device& device, StreamId stream) { return stepping([&] { return device.step(stream); }); },
            py::arg("stream"))
        .def(
            "step_any",
            [](Device& device, std::uint64_t random) { return stepping([&] { return device.step_any(random); }); },
            py::arg("random"))
        .def(
            "wait_for_work",
            [](Device& device, double seconds) { return without_gil([&] { return device.wait_for_work(seconds); }); },
            py::arg("timeout_seconds"))
        .def(
            "run_until", [](Device& device, EventId event) { stepping_all([&] { device.run_until(event); }); },
            py::arg("event"))
        .def(
            "synchronize", [](Device& device, StreamId stream) { stepping_all([&] { device.synchronize(stream); }); },
            py::arg("stream"))
        .def(
            "synchronize_all",
            [](Device& device, std::uint64_t seed) { stepping_all([&] { device.synchronize_all(seed); }); },
            py::arg("seed") = 0)
        .def("pending", &Device::num_pending, py::arg("stream"))
        .def_property_readonly("num_events", &Device::num_events)
        .def_property_readonly("num_threads_inside", &Device::num_threads_inside)
        .def("fail_call", &Device::fail_call, py::arg("function"), py::arg("n"), py::arg("error"),
             py::arg("is_sticky") = false)
        .def("call_counts", &Device::call_counts);
}

}  // namespace fastload
