// What is known of a pipeline before there is an image.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/image_view.h"
#include "image/steps/transform_step.h"

namespace fastload {

// The size behind all `steps`, nothing where it depends on the source or on a draw. `before` is the size in front of
// them, if that is known.
std::optional<ImageSize> size_after(const std::vector<TransformStep>& steps, std::optional<ImageSize> before);

// The most concrete steps that a sample can come to.
std::size_t count_resolved_steps(const std::vector<TransformStep>& steps) noexcept;

// True where a step makes draws.
bool is_random(const TransformStep& step) noexcept;

}  // namespace fastload
