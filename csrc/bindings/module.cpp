// The extension module fastload._core: its parts, what this binary is, and what the parts share. Only
// fastload/_native.py imports it; fastload/_core.pyi types it.
#include <pybind11/stl.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "bindings/bindings.h"
#include "bindings/without_gil.h"
#include "cuda/cuda_backend.h"
#include "device/backend.h"
#include "engine/batch/batch_copy.h"
#include "engine/batch/staging_ring.h"
#include "engine/deferred_releases.h"
#include "kernels/dispatch.h"

#define FASTLOAD_STRINGIFY_TOKEN(token) #token
#define FASTLOAD_STRINGIFY(macro) FASTLOAD_STRINGIFY_TOKEN(macro)

namespace py = pybind11;

namespace fastload {
namespace {

// Of the code that runs, also where Python files and an older binary disagree. The build passes it as a bare token.
constexpr const char* kVersion = FASTLOAD_STRINGIFY(FASTLOAD_VERSION);

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " FASTLOAD_STRINGIFY(__clang_major__) "." FASTLOAD_STRINGIFY(
    __clang_minor__) "." FASTLOAD_STRINGIFY(__clang_patchlevel__);
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

// Names the tables that can run here, best first.
std::string join_table_names() {
    std::string names;
    for (const KernelTable* table : runnable_kernel_tables())
        names += (names.empty() ? "" : ", ") + std::string(table->name);
    return names;
}

std::string active_table_name() { return active_kernel_table().name; }

// Long enough for a thread that waits for the GIL to take it.
constexpr timespec kPause = {0, 50'000};

// Lets go of the GIL for a moment; returns how long it then took to get it back. The time is taken after the pause, so
// that what the system's scheduler adds to a pause does not count.
double gil_wait_seconds() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point woken = without_gil([] {
        ::nanosleep(&kPause, nullptr);
        return Clock::now();
    });
    return std::chrono::duration<double>(Clock::now() - woken).count();
}

// The process's list. Touched under the GIL only; a forked child starts a new one. Never destroyed: threads may outlive
// the module.
std::shared_ptr<DeferredReleases>& deferred_releases() {
    static auto* list = new std::shared_ptr<DeferredReleases>(std::make_shared<DeferredReleases>());
    if ((*list)->is_forked()) *list = std::make_shared<DeferredReleases>();
    return *list;
}

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

// As DeviceFailure in fastload/_core.pyi.
py::dict describe_device_failure(const DeviceStatus& status) {
    py::dict fields;
    fields["error"] = status.error;
    fields["name"] = status.name;
    fields["text"] = status.text;
    fields["call"] = status.call;
    return fields;
}

// In a forked child what is let go of is leaked below: see StagingSlot::Memory.

// With the ring its memory ends, whose owner is Python's, where no copy reads from it any more.
struct DeleteRing {
    void operator()(StagingRing* ring) const noexcept {
        delete ring;
        run_deferred_releases();
    }
};
using RingHolder = std::unique_ptr<StagingRing, DeleteRing>;

RingHolder make_ring(std::shared_ptr<DeviceBackend> backend, std::uintptr_t address, std::size_t slot_bytes,
                     std::size_t num_slots, py::object owner) {
    std::size_t size_bytes = 0;
    if (slot_bytes == 0 || num_slots == 0 || !checked_multiply(slot_bytes, num_slots, &size_bytes)) {
        throw py::value_error("slot_bytes and num_slots must be positive and their product a size, got " +
                              std::to_string(slot_bytes) + " and " + std::to_string(num_slots));
    }
    return RingHolder(new StagingRing(std::move(backend), reinterpret_cast<std::uint8_t*>(address), slot_bytes,
                                      num_slots, make_token(std::move(owner))));
}

void sweep_staging_rings() {
    without_gil([] {
        StagingRing::sweep();
        return true;
    });
    run_deferred_releases();
}

// A slot, None where all are in use, or a failure.
py::object take(StagingRing& ring) {
    std::unique_ptr<StagingSlot> slot;
    const DeviceStatus status = without_gil([&] { return ring.take(&slot); });
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
    without_gil([&] {
        copy.set_destinations({pointers.data(), pointers.size()});
        return true;
    });
}

void set_written(BatchCopy& copy) {
    without_gil([&] {
        copy.set_written();
        return true;
    });
}

py::object failure(const BatchCopy& copy) {
    const DeviceStatus status = copy.status();
    if (status.is_ok()) return py::none();
    return describe_device_failure(status);
}

}  // namespace

const KernelTable& active_kernel_table() {
    const KernelTable* table = select_kernel_table();
    if (table != nullptr) return *table;
    throw py::value_error(std::string("FASTLOAD_SIMD must name a kernel table that this build and processor ") +
                          "have (" + join_table_names() + "), got '" + requested_kernel_table() +
                          "'. Unset it to take the best one.");
}

std::shared_ptr<void> make_token(py::object object) {
    const auto leave_in_list = [list = deferred_releases()](void* token) noexcept { list->add(token); };
    return {object.release().ptr(), leave_in_list};
}

py::object object_of(const std::shared_ptr<void>& token) {
    return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(token.get()));
}

void run_deferred_releases() noexcept {
    try {
        for (void* token : deferred_releases()->take_all()) py::handle(static_cast<PyObject*>(token)).dec_ref();
    } catch (const std::bad_alloc&) {
        return;  // they stay in the list
    }
}

ByteSpan span_of(const py::bytes& data) {
    const auto view = static_cast<std::string_view>(data);
    return {reinterpret_cast<const std::uint8_t*>(view.data()), view.size()};
}

PackedImageView view_packed(const py::buffer& pixels, std::int32_t width, std::int32_t height) {
    const py::buffer_info info = pixels.request();
    std::size_t expected = 0;
    if (width <= 0 || height <= 0 ||
        !checked_multiply(static_cast<std::size_t>(width) * 3, static_cast<std::size_t>(height), &expected) ||
        static_cast<std::size_t>(info.size * info.itemsize) != expected ||
        PyBuffer_IsContiguous(info.view(), 'C') == 0) {
        throw py::value_error("pixels must hold width * height * 3 bytes, one after the other");
    }
    return {static_cast<const std::uint8_t*>(info.ptr), static_cast<std::size_t>(width) * 3, width, height};
}

py::dict describe_failure(const Status& status) {
    py::dict fields;
    fields["stage"] = stage_name(stage_of(status.code));
    fields["errno"] = status.system_errno;
    fields["offset"] = status.byte_offset;
    fields["text"] = status_text(status.code);
    fields["detail"] = status.detail;
    fields["is_out_of_memory"] = status.code == StatusCode::kOutOfMemory;
    fields["exception"] = py::none();
    return fields;
}

void bind_device(py::module_& m) {
    py::class_<DeviceBackend, std::shared_ptr<DeviceBackend>>(m, "DeviceBackend")
        .def("stay_in_thread", &stay_in_thread);
    m.def("open_cuda_device", &open_cuda_device, py::arg("runtime_major"), py::arg("device"));
}

void bind_staging(py::module_& m) {
    py::class_<StagingSlot, std::shared_ptr<StagingSlot>>(m, "StagingSlot")
        .def_property_readonly("address",
                               [](const StagingSlot& slot) { return reinterpret_cast<std::uintptr_t>(slot.data()); })
        .def_property_readonly("nbytes", &StagingSlot::size_bytes);

    py::class_<StagingRing, RingHolder>(m, "StagingRing")
        .def(py::init(&make_ring), py::arg("backend"), py::kw_only(), py::arg("address"), py::arg("slot_bytes"),
             py::arg("num_slots"), py::arg("owner"))
        .def("take", &take);
    m.def("sweep_staging_rings", &sweep_staging_rings);

    py::class_<BatchCopy, std::shared_ptr<BatchCopy>>(m, "BatchCopy")
        .def(py::init(&make_copy), py::arg("slot"), py::arg("parts"), py::arg("stream"))
        .def("set_destinations", &set_destinations, py::arg("addresses"))
        .def("set_written", &set_written)
        .def_property_readonly("failure", &failure);
}

}  // namespace fastload

PYBIND11_MODULE(_core, module) {
    using namespace fastload;
    module.doc() = "The native part of fastload. Private: import fastload instead.";
    module.attr("version") = kVersion;
    module.attr("compiler") = kCompiler;
    module.attr("cxx_standard") = static_cast<long>(__cplusplus);
    module.def("available_kernel_tables", &join_table_names);
    module.def("active_kernel_table", &active_table_name);
    module.def("gil_wait_seconds", &gil_wait_seconds);
    bind_device(module);
    bind_staging(module);
    bind_draws(module);
    bind_steps(module);
    bind_blur(module);
    bind_transform_plan(module);
    bind_sources(module);
    bind_iteration(module);
    bind_engine(module);
    bind_decoders(module);
}
