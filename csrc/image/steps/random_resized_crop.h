// torchvision's RandomResizedCrop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "image/plan/step.h"
#include "image/resize/resize_plan.h"
#include "image/steps/random_box.h"

namespace fastload {

struct RandomResizedCrop final : SizedStep, RandomBoxRule {
    Interpolation interpolation = Interpolation::kBilinear;

    std::string check() const override;
    std::size_t max_operations() const noexcept override { return 2; }  // a crop and a resize
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
    std::shared_ptr<Step> with_torch_exp(const FindTorchExp& find) const override;
};

// Makes up to ten attempts at a box that fits into the image, otherwise returns the largest central one whose ratio is
// in range. Width or height may be 0 for absurd ratios; torchvision then fails in the resize after it.
Region choose_random_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept;

}  // namespace fastload
