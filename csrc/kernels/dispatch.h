// Chooses the kernel table once, by what the processor has and what FASTLOAD_SIMD allows.
#pragma once

#include "kernels/kernel_table.h"

namespace fastload {

// The table to use in this process: the best one the processor can run, or the one named by the environment variable
// FASTLOAD_SIMD ("scalar"). Returns nullptr where that names a table that this build or processor does not have.
const KernelTable* select_kernel_table() noexcept;

// The value of FASTLOAD_SIMD, "" where it is unset.
const char* requested_kernel_table() noexcept;

// The names FASTLOAD_SIMD can take here, best first, separated by ", ". Static storage.
const char* available_kernel_tables() noexcept;

}  // namespace fastload
