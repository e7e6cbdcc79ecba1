#include "image/steps/adjustments.h"

#include <cmath>

#include "image/pixels/hue.h"
#include "image/pixels/point_ops.h"
#include "image/pixels/saturation.h"
#include "image/pixels/sharpness.h"
#include "image/plan/argument_checks.h"

namespace fastload {
namespace {

std::string check_factor(double factor) {
    return std::fabs(factor) <= kLargestFloat ? "" : sentence("factor", "a float32 number", factor);
}

}  // namespace

std::string Brightness::check() const { return check_factor(factor); }
std::string Contrast::check() const { return check_factor(factor); }
std::string Saturation::check() const { return check_factor(factor); }
std::string Sharpness::check() const { return check_factor(factor); }
std::string Hue::check() const { return std::fabs(factor) <= 0.5 ? "" : sentence("factor", "in [-0.5, 0.5]", factor); }

// Pillow takes factors as float32.

void Brightness::change(const PlanarImageView& pixels) const noexcept {
    adjust_brightness(static_cast<float>(factor), pixels);
}

void Contrast::change(const PlanarImageView& pixels) const noexcept {
    adjust_contrast(static_cast<float>(factor), pixels);
}

void Saturation::change(const PlanarImageView& pixels) const noexcept {
    adjust_saturation(static_cast<float>(factor), pixels);
}

Status Sharpness::remake(const PlanarImageView& source, const PlanarImageView& destination,
                         AlignedBuffer*) const noexcept {
    adjust_sharpness(static_cast<float>(factor), source, destination);
    return Status::ok();
}

void Hue::change(const PlanarImageView& pixels) const noexcept { adjust_hue(factor, pixels); }

}  // namespace fastload
