// torchvision's RandomErasing with a given value.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/span.h"
#include "image/plan/step.h"
#include "image/steps/random_box.h"

namespace fastload {

// Overwrites a box of the finished elements with `value`, with `probability`.
struct RandomErasing final : Step, RandomBoxRule {
    double probability = 0.5;
    std::vector<std::byte> value;  // 3 elements

    std::string check() const override;
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
    std::shared_ptr<Step> with_torch_exp(const FindTorchExp& find) const override;
    bool is_on_elements() const noexcept override { return true; }
    std::string check_layout(const OutputLayout& layout) const override;
};

// Makes up to ten attempts (of height to width) at a box that is smaller than the image on both sides; it may be empty.
// Returns none if no attempt succeeds.
std::optional<Region> choose_erased_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept;

// Overwrites `box` of a finished sample of `size` with `value`, 3 elements.
void erase_elements(const OutputLayout& layout, ImageSize size, const Region& box, ByteSpan value,
                    void* sample) noexcept;

}  // namespace fastload
