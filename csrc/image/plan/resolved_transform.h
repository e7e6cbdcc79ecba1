// A plan resolved for one sample.
#pragma once

#include <cstddef>

#include "base/image_view.h"
#include "image/plan/operation_list.h"

namespace fastload {

constexpr std::size_t kMaxOperations = 32;

// Operations that change nothing are left out. It lives no longer than the plan that made it.
struct ResolvedTransform {
    OperationList operations;
    ImageSize source_size;
    ImageSize output_size;
    // The pixels of the source that the result depends on through crops; what the decoder must deliver. Never empty.
    Region source_region;
    // Whether torchvision would still have Image.info, what the file says besides the pixels: some of its operations
    // make another image, also where that has the same pixels.
    bool keeps_info = true;
};

}  // namespace fastload
