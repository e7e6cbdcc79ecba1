// Streams, their batches and their samples for the reference decoder, as Python sees them.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "base/status.h"
#include "engine/batch/buffer_pool.h"
#include "engine/stream_group.h"

namespace fastload {

struct HostBuffer {
    std::shared_ptr<BufferPool::Buffer> buffer;
};

// Throws std::runtime_error in a forked child of the process that made `core`.
void check_process(const EngineCore& core);

// Why a sample could not be made, as SampleFailure in fastload/_core.pyi, still without position and path.
pybind11::dict describe_failure(const Status& status);

// The Python object of new streams.
pybind11::object make_stream_object(std::unique_ptr<StreamGroup> streams);

// Waits for a sample that needs the reference decoder: a FallbackTask, or None once the engine is closed. A thread that
// fails here is lost, so its error becomes a fault of every stream.
pybind11::object next_fallback(EngineCore& core);

// Adds the classes HostBuffer, FallbackTask, Batch and Stream to the module.
void bind_stream(pybind11::module_& m);

}  // namespace fastload
