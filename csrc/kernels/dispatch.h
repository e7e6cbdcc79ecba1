// Chooses the kernel table once, from the processor's features and FASTLOAD_SIMD.
#pragma once

#include "base/span.h"
#include "kernels/kernel_table.h"

namespace fastload {

// The tables that this build has and this processor can run, best first. Static storage.
Span<const KernelTable* const> runnable_kernel_tables() noexcept;

// Returns the table for this process: the best one, or the one that the environment variable FASTLOAD_SIMD names.
// Returns nullptr if it names a table that this build or processor does not have. That is an error when kernels are
// asked for, not at import, which must work in a process whose environment was set for another version.
const KernelTable* select_kernel_table() noexcept;

// Returns the value of FASTLOAD_SIMD, "" if it is unset.
const char* requested_kernel_table() noexcept;

}  // namespace fastload
