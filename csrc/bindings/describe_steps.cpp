#include "bindings/bind_transform.h"
#include "bindings/step_names.h"

namespace fastload {
namespace {

namespace py = pybind11;

py::tuple describe_fill(const RgbFill& fill) { return py::make_tuple(fill[0], fill[1], fill[2]); }

py::tuple describe_op(const PixelOp& op) {
    const char* name = name_of(kPixelOpNames, op.kind);
    switch (op.kind) {
        case PixelOpKind::kBrightness:
        case PixelOpKind::kContrast:
        case PixelOpKind::kSaturation:
        case PixelOpKind::kSharpness:
        case PixelOpKind::kHue:
            return py::make_tuple(name, op.factor);
        case PixelOpKind::kPosterize:
            return py::make_tuple(name, op.bits);
        case PixelOpKind::kSolarize:
            return py::make_tuple(name, op.threshold);
        case PixelOpKind::kAffine: {
            const auto& m = op.matrix;
            return py::make_tuple(name, m[0], m[1], m[2], m[3], m[4], m[5], describe_fill(op.fill));
        }
        default:
            return py::make_tuple(name);
    }
}

py::tuple describe_step(const ResolvedStep& step) {
    switch (step.kind) {
        case ResolvedKind::kCrop: {
            const PaddedCrop& crop = step.crop;
            return py::make_tuple("crop", crop.inside.left, crop.inside.top, crop.inside.width, crop.inside.height,
                                  crop.pad_left, crop.pad_top, crop.pad_right, crop.pad_bottom);
        }
        case ResolvedKind::kResize:
            return py::make_tuple("resize", step.size.width, step.size.height,
                                  name_of(kInterpolationNames, step.interpolation));
        case ResolvedKind::kHorizontalFlip:
            return py::make_tuple("hflip");
        case ResolvedKind::kVerticalFlip:
            return py::make_tuple("vflip");
        case ResolvedKind::kPad: {
            const Padding& padding = step.padding;
            return py::make_tuple("pad", padding.left, padding.top, padding.right, padding.bottom,
                                  name_of(kPaddingModeNames, padding.mode), describe_fill(padding.fill));
        }
        case ResolvedKind::kPixelOp:
            return describe_op(step.op);
        case ResolvedKind::kGaussianBlur: {
            const GaussianBlur& blur = *step.blur;
            return py::make_tuple("gaussian_blur", blur.columns.size(), blur.rows.size(), step.sigma,
                                  name_of(kDrawsNames, blur.version));
        }
        case ResolvedKind::kErase: {
            const Region& box = step.erased;
            const auto* value = reinterpret_cast<const char*>(step.erase_value.data());
            return py::make_tuple("erase", box.left, box.top, box.width, box.height,
                                  py::bytes(value, step.erase_value_bytes));
        }
    }
    return py::make_tuple();
}

}  // namespace

py::list describe_steps(const ResolvedTransform& resolved) {
    py::list steps;
    for (const ResolvedStep& step : resolved.steps()) steps.append(describe_step(step));
    return steps;
}

}  // namespace fastload
