// The boxes of RandomResizedCrop and RandomErasing: a share of the area, and a ratio of the sides.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/image_view.h"
#include "image/plan/step.h"

namespace fastload {

// The bounds are float32 as in torch's draws; the limits of a ratio stay double as in Python.
struct RandomBoxRule {
    std::array<double, 2> scale = {0.08, 1.0};
    std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};
    std::pair<float, float> log_ratio = {-0.28768207F, 0.28768207F};  // torch.log of float32 `ratio`
    std::shared_ptr<const TorchExp> torch_exp;  // torch's own between these two; null: the correctly rounded one
};

// Names the wrong argument; empty if all are valid.
std::string check_box_rule(const RandomBoxRule& rule);

// Draws a share of the image's area and then an aspect ratio. Returns the square roots of their product and of their
// quotient, rounded half to even.
struct BoxSides {
    double of_product = 0.0;
    double of_quotient = 0.0;
};
BoxSides draw_box_sides(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept;

// A box with whole sides, no larger than the image's, at a drawn row and then a drawn column.
Region draw_box_place(ImageSize image, double width, double height, DrawSource* draws) noexcept;

}  // namespace fastload
