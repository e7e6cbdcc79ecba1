// A plan resolved for one sample.
#pragma once

#include <cstddef>

#include "base/image_view.h"
#include "image/plan/operation_list.h"

namespace fastload {

constexpr std::size_t kMaxOperations = 32;

// Operations that change nothing are left out. Must not outlive the plan that made it.
struct ResolvedTransform {
    OperationList operations;
    ImageSize source_size;
    ImageSize output_size;
    // The pixels of the source that the result depends on, given the crops; the decoder must deliver them. Never empty.
    Region source_region;
    // True if torchvision would still have Image.info, the file's metadata besides the pixels. Some of its operations
    // make another image, even one with the same pixels.
    bool keeps_info = true;
};

}  // namespace fastload
