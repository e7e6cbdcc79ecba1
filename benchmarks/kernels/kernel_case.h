// The cases of the kernel benchmark, each a kernel with its inputs.
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
// `result` is compared; consecutive runs are timed without it.
struct KernelCase {
    std::string name;
    std::string unit;  // the unit of work that times refer to
    double units = 0;  // units in one run
    std::function<void(const KernelTable&)> run;
    std::function<Bytes()> result;  // bytes written by the last run
    std::function<void()> reset = [] {};
};

using KernelCases = std::vector<KernelCase>;

// Adds the cases of one group of kernels, in order.
void add_find_marker_cases(KernelCases* cases);
void add_block_cases(KernelCases* cases);        // inverse DCT
void add_coefficient_cases(KernelCases* cases);  // packed blocks
void add_strip_cases(KernelCases* cases);        // upsampling and colour
void add_resize_cases(KernelCases* cases);
void add_convert_cases(KernelCases* cases);
void add_blur_cases(KernelCases* cases);
void add_affine_cases(KernelCases* cases);
void add_hash_cases(KernelCases* cases);  // hash of contents
void add_copy_cases(KernelCases* cases);

}  // namespace fastload::benchmarks
