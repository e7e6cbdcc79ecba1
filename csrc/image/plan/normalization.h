// Finds the formula of a table of float32 elements, so that kernels can compute values that are slow to look up.
#pragma once

#include <optional>

#include "kernels/convert.h"

namespace fastload {

struct Normalizations {
    Normalization channels[3];
};

// The formula that gives exactly the bits of all 3 * 256 entries of `table`, or nothing if there is none: then the
// table does not come from torchvision's ToTensor with or without Normalize. Takes some microseconds; a plan does it
// once.
std::optional<Normalizations> find_normalizations(const void* table) noexcept;

}  // namespace fastload
