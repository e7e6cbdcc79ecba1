// A CUDA runtime whose streams are fibers of the thread sanitizer: it reports every access that CUDA does not order,
// whatever the timing. For the tsan flavor only; its source is compiled without the sanitizer.
#pragma once

#include <cstddef>

#include "fake_cuda/cudart.h"

// Note [fibers]
// Work is done at once, in the calling thread, but in the name of the stream's fiber, so the sanitizer takes it for
// that of a thread of its own. What CUDA orders is told to it: work on a stream comes after what its caller did before,
// and after the stream's own earlier work; what waits for an event, or sees that it is done, comes after what was
// recorded. Nothing else is: the lock inside is one the sanitizer does not see, and nothing inside is allocated or
// freed while threads use the runtime, which would be accesses too. Cannot show what a deadlock or real overlap would
// do.
//
// Kernels of instrumented code cannot run on a fiber, whose stack is the caller's: fiber_read stands for them.

// A kernel that reads this memory.
extern "C" void fiber_read(void* stream, const void* address, std::size_t size_bytes);
