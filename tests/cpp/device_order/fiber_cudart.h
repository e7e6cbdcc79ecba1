// A CUDA runtime whose streams are fibers of the thread sanitizer: it reports every access that CUDA does not order,
// whatever the timing. For the tsan flavor only; its source is compiled without the sanitizer.
#pragma once

#include <cstddef>

#include "fake_cuda/cudart.h"

// Note [fibers]
// Work is done at once, in the calling thread but in the name of the stream's fiber, so the sanitizer takes it for work
// of a separate thread. It is told the order that CUDA guarantees: work on a stream comes after everything its caller
// did before, and after the stream's own earlier work; a wait for an event, or a look that finds it done, comes after
// everything that was recorded. It is told no other order: the sanitizer does not see the lock inside, and nothing
// inside is allocated or freed while threads use the runtime, because that would be accesses too. Cannot show the
// effects of a deadlock or of real overlap.
//
// Kernels of instrumented code cannot run on a fiber, whose stack is the caller's: fiber_read replaces them.

// A kernel that reads this memory.
extern "C" void fiber_read(void* stream, const void* address, std::size_t size_bytes);
