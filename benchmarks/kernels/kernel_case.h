// What the kernel benchmark measures: cases, each a kernel with its inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace fastload::benchmarks {

using Bytes = std::vector<std::uint8_t>;

// `run` does the work once through a table. A kernel that changes its input has a `reset`, called before a run whose
// `result` is compared; times are of runs that follow each other.
struct KernelCase {
    std::string name;
    std::string unit;  // what times are per
    double units = 0;  // in one run
    std::function<void(const KernelTable&)> run;
    std::function<Bytes()> result;  // what the last run wrote
    std::function<void()> reset = [] {};
};

using KernelCases = std::vector<KernelCase>;

// The cases of each group of kernels, in order.
void add_unstuff_cases(KernelCases* cases);
void add_block_cases(KernelCases* cases);        // inverse DCT
void add_coefficient_cases(KernelCases* cases);  // packed blocks
void add_strip_cases(KernelCases* cases);        // upsampling and colour
void add_resize_cases(KernelCases* cases);
void add_convert_cases(KernelCases* cases);
void add_blur_cases(KernelCases* cases);
void add_affine_cases(KernelCases* cases);
void add_hash_cases(KernelCases* cases);  // of contents

}  // namespace fastload::benchmarks
