// The devices of the CUDA runtime that torch has loaded, staging memory, and the copies out of it.
#include "bindings/pybind.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "cuda/cuda_backend.h"
#include "device/backend.h"
#include "engine/batch/staging_ring.h"
#include "python/without_gil.h"

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

// A DeviceFailure of fastload/_core.pyi.
py::dict describe_device_failure(const DeviceStatus& status) {
    py::dict fields;
    fields["error"] = status.error;
    fields["name"] = status.name;
    fields["text"] = status.text;
    fields["call"] = status.call;
    return fields;
}

// Ends the ring, whose memory Python owns, once no copy reads from it any more.
struct RingHandle {
    std::shared_ptr<StagingRing> ring;

    ~RingHandle() {
        ring.reset();
        run_deferred_releases();
    }
};

std::unique_ptr<RingHandle> make_ring(std::shared_ptr<DeviceBackend> backend, std::uintptr_t address,
                                      std::size_t slot_bytes, std::size_t num_slots, py::object owner) {
    std::size_t size_bytes = 0;
    if (slot_bytes == 0 || num_slots == 0 || !checked_multiply(slot_bytes, num_slots, &size_bytes)) {
        throw py::value_error("slot_bytes and num_slots must be positive and their product a size, got " +
                              std::to_string(slot_bytes) + " and " + std::to_string(num_slots));
    }
    auto handle = std::make_unique<RingHandle>();
    handle->ring = StagingRing::open(std::move(backend), reinterpret_cast<std::uint8_t*>(address), slot_bytes,
                                     num_slots, make_token(std::move(owner)));
    return handle;
}

void sweep_staging_rings() {
    without_gil([] { StagingRing::sweep(); });
    run_deferred_releases();
}

// Returns a slot, None if all are in use, or a failure.
py::object take(const RingHandle& handle) {
    std::unique_ptr<StagingSlot> slot;
    const DeviceStatus status = without_gil([&] { return handle.ring->take(&slot); });
    if (!status.is_ok()) return describe_device_failure(status);
    return py::cast(std::shared_ptr<StagingSlot>(std::move(slot)));
}

std::shared_ptr<BatchCopy> make_copy(const std::shared_ptr<StagingSlot>& slot,
                                     const std::vector<std::pair<std::size_t, std::size_t>>& parts, StreamId stream) {
    std::vector<StagedPart> staged;
    for (const auto& [offset, size_bytes] : parts) {
        const std::size_t room = slot->size_bytes();
        if (offset > room || size_bytes > room - offset) {
            throw py::value_error("a part must lie in its slot of " + std::to_string(room) + " bytes, got " +
                                  std::to_string(size_bytes) + " bytes at " + std::to_string(offset));
        }
        staged.push_back({offset, size_bytes, nullptr});
    }
    return std::make_shared<BatchCopy>(slot, std::move(staged), stream);
}

void set_destinations(BatchCopy& copy, const std::vector<std::uintptr_t>& addresses) {
    if (addresses.size() != copy.num_parts()) {
        throw py::value_error("there must be a destination for each of " + std::to_string(copy.num_parts()) +
                              " parts, got " + std::to_string(addresses.size()));
    }
    std::vector<void*> pointers;
    for (const std::uintptr_t address : addresses) pointers.push_back(reinterpret_cast<void*>(address));
    without_gil([&] { copy.set_destinations({pointers.data(), pointers.size()}); });
}

py::object failure(const BatchCopy& copy) {
    const DeviceStatus status = copy.status();
    if (status.is_ok()) return py::none();
    return describe_device_failure(status);
}

}  // namespace

void bind_device(py::module_& m) {
    Class<DeviceBackend, std::shared_ptr<DeviceBackend>>(m, "DeviceBackend").def("stay_in_thread", &stay_in_thread);
    m.def("open_cuda_device", &open_cuda_device, py::arg("runtime_major"), py::arg("device"));

    Class<StagingSlot, std::shared_ptr<StagingSlot>>(m, "StagingSlot")
        .def_property_readonly("address",
                               [](const StagingSlot& slot) { return reinterpret_cast<std::uintptr_t>(slot.data()); });

    Class<RingHandle>(m, "StagingRing")
        .def(py::init(&make_ring), py::arg("backend"), py::kw_only(), py::arg("address"), py::arg("slot_bytes"),
             py::arg("num_slots"), py::arg("owner"))
        .def("take", &take);
    m.def("sweep_staging_rings", &sweep_staging_rings);

    Class<BatchCopy, std::shared_ptr<BatchCopy>>(m, "BatchCopy")
        .def(py::init(&make_copy), py::arg("slot"), py::arg("parts"), py::arg("stream"))
        .def("set_destinations", &set_destinations, py::arg("addresses"))
        .def("set_written", [](BatchCopy& copy) { without_gil([&] { copy.set_written(); }); })
        .def_property_readonly("failure", &failure);
}

}  // namespace fastload
