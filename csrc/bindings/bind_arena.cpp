// Memory of worker processes: the arena that a worker fills and its parent copies from, and the worker's slots in it.
#include "bindings/pybind.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/class.h"
#include "kernels/stream_copy.h"
#include "processes/arena.h"
#include "processes/slots.h"
#include "python/without_gil.h"

namespace py = pybind11;

namespace fastload {
namespace {

// From here on a copy leaves the caches to the training.
constexpr std::size_t kStreamedBytes = std::size_t{16} << 20;

using Place = std::optional<std::tuple<std::size_t, std::size_t>>;

std::shared_ptr<Arena> shared(Arena arena, int error) {
    if (!arena.is_mapped()) throw_os_error(error);
    return std::make_shared<Arena>(std::move(arena));
}

std::shared_ptr<Arena> create_arena(std::size_t num_slots, std::size_t max_slot_bytes, bool is_forked) {
    if (num_slots < Arena::kMinSlots) {
        throw py::value_error("num_slots must be at least " + std::to_string(Arena::kMinSlots) + ", got " +
                              std::to_string(num_slots));
    }
    if (max_slot_bytes < Arena::kMinSlotBytes) {
        throw py::value_error("max_slot_bytes must be at least " + std::to_string(Arena::kMinSlotBytes) + ", got " +
                              std::to_string(max_slot_bytes));
    }
    int error = 0;
    const auto user = is_forked ? Arena::For::kForkedWorker : Arena::For::kOtherProcess;
    Arena arena = Arena::create(num_slots, max_slot_bytes, user, &error);
    return shared(std::move(arena), error);
}

std::shared_ptr<Arena> open_arena(int descriptor, std::size_t num_slots, std::size_t slot_bytes, bool is_limited) {
    int error = 0;
    Arena arena = Arena::open(descriptor, num_slots, slot_bytes, is_limited, &error);
    return shared(std::move(arena), error);
}

std::optional<int> descriptor_of(const Arena& arena) {
    return arena.descriptor() < 0 ? std::nullopt : std::optional<int>(arena.descriptor());
}

void copy_out(const Arena& arena, std::size_t slot, std::size_t offset, std::uintptr_t address, std::size_t size) {
    if (!arena.has(slot, offset, size)) {
        throw py::value_error("the arena has " + std::to_string(arena.num_slots()) + " slots of " +
                              std::to_string(arena.slot_bytes()) + " bytes, got " + std::to_string(size) +
                              " bytes at " + std::to_string(offset) + " of slot " + std::to_string(slot));
    }
    StreamCopyFunction* const copy = size < kStreamedBytes ? stream_copy_scalar : active_kernel_table().stream_copy;
    without_gil([&] { copy(reinterpret_cast<std::uint8_t*>(address), arena.slot(slot) + offset, size); });
}

void set_free(ArenaSlots& slots, const std::vector<std::size_t>& numbers) {
    for (const std::size_t slot : numbers) {
        if (!slots.set_free(slot)) throw py::value_error("there is no answer in slot " + std::to_string(slot));
    }
}

py::object allocate(ArenaSlots& slots, std::size_t size) {
    SharedBytes memory = without_gil([&] { return slots.allocate(size); });
    if (memory == nullptr) return py::none();
    return make_host_buffer(std::move(memory));
}

Place place_of(const std::optional<ArenaSlots::Place>& place) {
    if (!place) return std::nullopt;
    return std::make_tuple(place->slot, place->offset);
}

Place find(ArenaSlots& slots, std::uintptr_t address, std::size_t size) {
    return place_of(slots.find(reinterpret_cast<const std::uint8_t*>(address), size));
}

Place append(ArenaSlots& slots, std::uintptr_t address, std::size_t size) {
    return place_of(without_gil([&] { return slots.append(reinterpret_cast<const std::uint8_t*>(address), size); }));
}

}  // namespace

void bind_arena(py::module_& m) {
    if (!install_fork_events()) throw std::bad_alloc();
    Class<Arena, std::shared_ptr<Arena>>(m, "Arena")
        .def(py::init(&create_arena), py::arg("num_slots") = 16, py::arg("max_slot_bytes") = std::size_t{1} << 32,
             py::arg("is_forked") = true)
        .def_static("from_descriptor", &open_arena, py::arg("descriptor"), py::arg("num_slots"), py::arg("slot_bytes"),
                    py::arg("is_limited") = false)
        .def_property_readonly("is_limited", &Arena::is_limited)
        .def_property_readonly("descriptor", &descriptor_of)
        .def_property_readonly("num_slots", &Arena::num_slots)
        .def_property_readonly("slot_bytes", &Arena::slot_bytes)
        .def("close_descriptor", &Arena::close_descriptor)
        .def("copy_out", &copy_out, py::arg("slot"), py::arg("offset"), py::arg("address"), py::arg("nbytes"))
        .def("release", [](const Arena& arena) { without_gil([&] { arena.remove_all(); }); })
        .def("resident_bytes", [](const Arena& arena) { return without_gil([&] { return arena.resident_bytes(); }); });
    Class<ArenaSlots>(m, "ArenaSlots")
        .def(py::init([](std::shared_ptr<Arena> arena) { return std::make_unique<ArenaSlots>(std::move(arena)); }),
             py::arg("arena"))
        .def("set_free", &set_free, py::arg("slots"))
        .def("begin_batch", [](ArenaSlots& slots) { without_gil([&] { slots.begin_batch(); }); })
        .def("allocate", &allocate, py::arg("nbytes"))
        .def("find", &find, py::arg("address"), py::arg("nbytes"))
        .def("append", &append, py::arg("address"), py::arg("nbytes"))
        .def("end_batch", &ArenaSlots::end_batch)
        .def("release", [](ArenaSlots& slots) { without_gil([&] { slots.release(); }); });
}

}  // namespace fastload
