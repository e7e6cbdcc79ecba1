// The pixel kernels of one instruction set. Every variant gives the same bytes as the scalar one.
#pragma once

namespace fastload {

// Function pointers, so that a plan picks a table once and the hot loops do not ask again. Each member's contract
// stands in the header named after the operation.
struct KernelTable {
    const char* name;  // "scalar", "avx2", "avx512"
};

}  // namespace fastload
