// Chooses the kernel table once, by what the processor has and what FASTLOAD_SIMD allows.
#pragma once

#include "base/span.h"
#include "kernels/kernel_table.h"

namespace fastload {

// The tables that this build has and this processor runs, best first. Static storage.
Span<const KernelTable* const> runnable_kernel_tables() noexcept;

// The table to use in this process: the best one, or the one named by the environment variable FASTLOAD_SIMD. Returns
// nullptr where that names a table that this build or processor does not have: an error where kernels are asked for,
// not at import, which must work in a process whose environment was set for another version.
const KernelTable* select_kernel_table() noexcept;

// The value of FASTLOAD_SIMD, "" where it is unset.
const char* requested_kernel_table() noexcept;

}  // namespace fastload
