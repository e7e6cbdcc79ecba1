// Which of torchvision's two families a transform is of.
#pragma once

#include <cstdint>

namespace fastload {

// They make the same choices from different draws, or in another order.
enum class TorchvisionVersion : std::uint8_t {
    kV1,  // torchvision.transforms
    kV2,  // torchvision.transforms.v2
};

}  // namespace fastload
