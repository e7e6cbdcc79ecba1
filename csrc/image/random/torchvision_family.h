// The two families of torchvision's transforms, v1 and v2.
#pragma once

#include <cstdint>
#include <utility>

#include "base/enum_names.h"

namespace fastload {

// They make the same choices from different draws, or in another order.
enum class TorchvisionFamily : std::uint8_t {
    kV1,  // torchvision.transforms
    kV2,  // torchvision.transforms.v2
};

template <>
struct EnumNames<TorchvisionFamily> {
    static constexpr const char* kArgument = "family";
    static constexpr std::pair<const char*, TorchvisionFamily> kNames[] = {{"v1", TorchvisionFamily::kV1},
                                                                           {"v2", TorchvisionFamily::kV2}};
};

}  // namespace fastload
