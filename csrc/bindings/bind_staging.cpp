#include "bindings/bind_staging.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "bindings/bindings.h"
#include "bindings/python_token.h"
#include "bindings/without_gil.h"
#include "engine/fork_guard.h"
#include "engine/staging_ring.h"

namespace py = pybind11;

namespace fastload {
namespace {

// As DeviceFailure in fastload/_core.pyi.
py::dict describe_device_failure(const DeviceStatus& status) {
    py::dict fields;
    fields["error"] = status.error;
    fields["name"] = status.name;
    fields["text"] = status.text;
    fields["call"] = status.call;
    return fields;
}

class SlotHandle {
  public:
    explicit SlotHandle(std::shared_ptr<StagingSlot> slot) : slot_(std::move(slot)) {}
    const std::shared_ptr<StagingSlot>& slot() const noexcept { return *slot_; }

  private:
    LeakedAfterFork<std::shared_ptr<StagingSlot>> slot_;
};

class RingHandle {
  public:
    RingHandle(std::shared_ptr<DeviceBackend> backend, std::uintptr_t address, std::size_t slot_bytes,
               std::size_t num_slots, py::object owner) {
        std::size_t size_bytes = 0;
        if (slot_bytes == 0 || num_slots == 0 || !checked_multiply(slot_bytes, num_slots, &size_bytes)) {
            throw py::value_error("slot_bytes and num_slots must be positive and their product a size, got " +
                                  std::to_string(slot_bytes) + " and " + std::to_string(num_slots));
        }
        auto* data = reinterpret_cast<std::uint8_t*>(address);
        ring_ = std::make_unique<StagingRing>(std::move(backend), data, slot_bytes, num_slots,
                                              make_token(std::move(owner)));
    }
    RingHandle(const RingHandle&) = delete;  // one owner
    RingHandle& operator=(const RingHandle&) = delete;
    ~RingHandle() {
        if (generation_ == fork_generation()) {
            ring_.reset();
            release_dead_tokens();
        } else {
            ring_.release();  // NOLINT: see Note [after fork]
        }
    }

    // A slot, None where all are in use, or a failure.
    py::object take() {
        std::unique_ptr<StagingSlot> slot;
        const DeviceStatus status = without_gil([&] { return ring_->take(&slot); });
        if (!status.is_ok()) return describe_device_failure(status);
        if (slot == nullptr) return py::none();
        return py::cast(std::make_unique<SlotHandle>(std::shared_ptr<StagingSlot>(std::move(slot))));
    }

  private:
    const std::uint32_t generation_ = fork_generation();
    std::unique_ptr<StagingRing> ring_;
};

class CopyHandle {
  public:
    CopyHandle(const SlotHandle& slot, const std::vector<std::pair<std::size_t, std::size_t>>& parts, StreamId stream) {
        std::vector<StagedPart> staged;
        for (const auto& [offset, size_bytes] : parts) {
            const std::size_t room = slot.slot()->size_bytes();
            if (offset > room || size_bytes > room - offset) {
                throw py::value_error("a part must lie in its slot of " + std::to_string(room) + " bytes, got " +
                                      std::to_string(size_bytes) + " bytes at " + std::to_string(offset));
            }
            staged.push_back({offset, size_bytes, nullptr});
        }
        copy_ = std::make_unique<LeakedAfterFork<std::shared_ptr<BatchCopy>>>(
            std::make_shared<BatchCopy>(slot.slot(), std::move(staged), stream));
    }

    const std::shared_ptr<BatchCopy>& copy() const noexcept { return **copy_; }

    void set_destinations(const std::vector<std::uintptr_t>& addresses) {
        if (addresses.size() != copy()->num_parts()) {
            throw py::value_error("there must be a destination for each of " + std::to_string(copy()->num_parts()) +
                                  " parts, got " + std::to_string(addresses.size()));
        }
        std::vector<void*> pointers;
        for (const std::uintptr_t address : addresses) pointers.push_back(reinterpret_cast<void*>(address));
        without_gil([&] {
            copy()->set_destinations({pointers.data(), pointers.size()});
            return true;
        });
    }

    void set_written() {
        without_gil([&] {
            copy()->set_written();
            return true;
        });
    }

    bool is_queued() const { return copy()->is_queued(); }

    py::object failure() const {
        const DeviceStatus status = copy()->status();
        if (status.is_ok()) return py::none();
        return describe_device_failure(status);
    }

  private:
    std::unique_ptr<LeakedAfterFork<std::shared_ptr<BatchCopy>>> copy_;
};

}  // namespace

std::shared_ptr<BatchCopy> batch_copy_of(const py::object& object) {
    return object.is_none() ? nullptr : object.cast<const CopyHandle&>().copy();
}

void bind_staging(py::module_& m) {
    py::class_<SlotHandle>(m, "StagingSlot")
        .def_property_readonly(
            "address", [](const SlotHandle& slot) { return reinterpret_cast<std::uintptr_t>(slot.slot()->data()); })
        .def_property_readonly("nbytes", [](const SlotHandle& slot) { return slot.slot()->size_bytes(); });

    py::class_<RingHandle>(m, "StagingRing")
        .def(py::init<std::shared_ptr<DeviceBackend>, std::uintptr_t, std::size_t, std::size_t, py::object>(),
             py::arg("backend"), py::kw_only(), py::arg("address"), py::arg("slot_bytes"), py::arg("num_slots"),
             py::arg("owner"))
        .def("take", &RingHandle::take);

    py::class_<CopyHandle>(m, "BatchCopy")
        .def(py::init<const SlotHandle&, const std::vector<std::pair<std::size_t, std::size_t>>&, StreamId>(),
             py::arg("slot"), py::arg("parts"), py::arg("stream"))
        .def("set_destinations", &CopyHandle::set_destinations, py::arg("addresses"))
        .def("set_written", &CopyHandle::set_written)
        .def_property_readonly("is_queued", &CopyHandle::is_queued)
        .def_property_readonly("failure", &CopyHandle::failure);
}

}  // namespace fastload
