// Finds the formula behind a table of float32 elements, so that kernels can compute what they cannot look up fast.
#pragma once

#include <optional>

#include "kernels/convert.h"

namespace fastload {

struct Normalizations {
    Normalization channels[3];
};

// What gives exactly the bits of all 3 * 256 entries of `table`, or nothing where no such formula is found: the table
// is then not of torchvision's ToTensor with or without Normalize. Takes some microseconds; a plan does it once.
std::optional<Normalizations> find_normalizations(const void* table) noexcept;

}  // namespace fastload
