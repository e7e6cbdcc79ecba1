#include "image/steps/box_blur.h"

#include <cstdint>

#include "image/blur/box_blur.h"
#include "image/plan/argument_checks.h"
#include "image/plan/working_image.h"

namespace fastload {
namespace {

constexpr std::int32_t kGaussianPasses = 3;

bool is_radius(float value) noexcept { return value >= 0.0F && value <= kMaxBoxRadius; }

std::string check_radii(const char* name, const std::array<float, 2>& radii) {
    const auto [x, y] = radii;
    return is_radius(x) && is_radius(y) ? "" : sentence(name, "two numbers in 0..65535", pair_text(x, y));
}

OperationReport report_radii(const char* name, const std::array<float, 2>& radii) {
    return {name, static_cast<double>(radii[0]), static_cast<double>(radii[1])};
}

Status blur(float x_radius, float y_radius, std::int32_t passes, WorkingImage* image) noexcept {
    return image->remake(image->size(), [&](const PlanarImageView& source, const PlanarImageView& destination) {
        Workspace& workspace = image->workspace();
        return box_blur(x_radius, y_radius, passes, workspace.kernels.box_blur, source, destination,
                        &workspace.kernel_scratch);
    });
}

}  // namespace

std::string BoxBlur::check() const { return check_radii("radius", radius); }

Status BoxBlur::run(WorkingImage* image) const noexcept { return blur(radius[0], radius[1], 1, image); }

OperationReport BoxBlur::report() const { return report_radii("box_blur", radius); }

std::string ThreeBoxBlurs::check() const { return check_radii("sigma", sigma); }

Status ThreeBoxBlurs::run(WorkingImage* image) const noexcept {
    return blur(gaussian_box_radius(sigma[0], kGaussianPasses), gaussian_box_radius(sigma[1], kGaussianPasses),
                kGaussianPasses, image);
}

OperationReport ThreeBoxBlurs::report() const { return report_radii("three_box_blurs", sigma); }

}  // namespace fastload
