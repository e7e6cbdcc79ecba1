// Iterations, their batches and their samples for the reference decoder, as Python sees them.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "base/status.h"
#include "engine/batch/buffer_pool.h"
#include "engine/iteration.h"

namespace fastload {

struct HostBuffer {
    std::shared_ptr<BufferPool::Buffer> buffer;
};

// Throws std::runtime_error in a forked child of the process that made `core`.
void check_process(const EngineCore& core);

// Why a sample could not be made, as SampleFailure in fastload/_core.pyi, still without position and path.
pybind11::dict describe_failure(const Status& status);

// The Python object of a new iteration.
pybind11::object make_iteration_object(std::unique_ptr<Iteration> iteration);

// Waits for a sample that needs the reference decoder: a FallbackTask, or None once the engine is closed. A thread that
// fails here is lost, so its error becomes a fault of every lane.
pybind11::object next_fallback(EngineCore& core);

// Adds the classes HostBuffer, FallbackTask, Batch and Iteration to the module.
void bind_iteration(pybind11::module_& m);

}  // namespace fastload
