// Starts the engine's threads.
#pragma once

#include <memory>

#include "engine/engine_core.h"

namespace fastload {

// Starts one thread that fills samples from core->work() until that is closed. The thread blocks signals (they are the
// interpreter's; those of its own faults excepted), carries the name "fastload-w<number>" and never ends by an
// exception: what it catches becomes a fault of every lane. Throws std::system_error where the system has no thread,
// std::bad_alloc where there is no memory.
void start_worker_thread(std::shared_ptr<EngineCore> core, std::size_t number);

}  // namespace fastload
