#include "image/steps/blurs.h"

#include <algorithm>
#include <cmath>
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

class Blur final : public Operation {
  public:
    Blur(const GaussianKernel& kernel, float sigma) noexcept : kernel_(kernel), sigma_(sigma) {}

    Status run(WorkingImage* image) const noexcept override {
        return image->remake(image->size(), [&](const PlanarImageView& source, const PlanarImageView& destination) {
            Workspace& workspace = image->workspace();
            return blur_image(kernel_, sigma_, workspace.kernels.blur, source, destination, &workspace.kernel_scratch);
        });
    }
    OperationReport report() const override {
        return {"gaussian_blur", static_cast<std::int64_t>(kernel_.columns.size()),
                static_cast<std::int64_t>(kernel_.rows.size()), static_cast<double>(sigma_), name_of(kernel_.family)};
    }

  private:
    const GaussianKernel& kernel_;
    float sigma_;
};

std::string check_positions(const char* name, const std::vector<float>& positions) {
    if (positions.size() > kMaxBlurSize || positions.size() % 2 == 0) {
        return sentence(name, "an odd number of positions, at most " + std::to_string(kMaxBlurSize), positions.size());
    }
    const auto bad = std::find_if(positions.begin(), positions.end(), [](float x) { return !std::isfinite(x); });
    return bad == positions.end() ? "" : sentence(name, "finite numbers", *bad);
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

std::string GaussianBlur::check() const {
    const auto [from, to] = sigma;
    if (!(from > 0.0F) || !(from <= to) || !std::isfinite(to)) {
        return sentence("sigma", "two float32 numbers with 0 < first <= second", pair_text(from, to));
    }
    if (sum_lanes != 4 && sum_lanes != 8 && sum_lanes != 16) return sentence("sum_lanes", "4, 8 or 16", sum_lanes);
    return first_of(check_positions("columns", columns), check_positions("rows", rows));
}

Status GaussianBlur::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    const float drawn = draws->uniform(sigma[0], sigma[1]);
    if (!fits_blur(*this, resolver->size())) {
        return {StatusCode::kInvalidGeometry, 0, 0, "a blur reaches over more than the image"};
    }
    resolver->drop_info();
    resolver->make(Blur(*this, drawn));
    resolver->move_pixels(resolver->size());
    return Status::ok();
}

}  // namespace fastload
