// Layout of a sample's elements in the batch.
#pragma once

#include <cstdint>
#include <vector>

namespace fastload {

struct OutputLayout {
    int element_size_bytes = 1;  // 1, 2, 4 or 8
    bool channels_last = false;  // HWC in memory, otherwise CHW
    // 3 x 256 elements: element 256 * c + v is the result for value v of channel c. Made by torch's own operations when
    // a pipeline is lowered, so it includes dtype, scaling and normalisation. Empty: uint8 as decoded.
    std::vector<std::uint8_t> table;
    bool is_bgr = false;  // blue is channel 0, red is channel 2
};

}  // namespace fastload
