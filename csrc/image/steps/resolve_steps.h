// From steps and draws to concrete steps.
#pragma once

#include <vector>

#include "base/status.h"
#include "image/plan/resolver.h"
#include "image/random/draw_source.h"
#include "image/steps/transform_step.h"

namespace fastload {

// Makes the choices of each step in torchvision's order. Fails with kInvalidGeometry where a step cannot be applied to
// an image of the size it gets.
Status resolve_steps(const std::vector<TransformStep>& steps, DrawSource* draws, Resolver* resolver) noexcept;

}  // namespace fastload
