#include "image/steps/pixel_op.h"

#include "image/pixels/affine.h"
#include "image/pixels/hue.h"
#include "image/pixels/point_ops.h"
#include "image/pixels/rotation.h"
#include "image/pixels/saturation.h"
#include "image/pixels/sharpness.h"

namespace fastload {

ImageSize size_after(const PixelOp& op, ImageSize size) noexcept {
    const bool is_turned = op.kind == PixelOpKind::kRotate90 || op.kind == PixelOpKind::kRotate270;
    return is_turned ? ImageSize{size.height, size.width} : size;
}

bool is_in_place(const PixelOp& op) noexcept {
    switch (op.kind) {
        case PixelOpKind::kSharpness:
        case PixelOpKind::kAffine:
        case PixelOpKind::kRotate90:
        case PixelOpKind::kRotate180:
        case PixelOpKind::kRotate270:
            return false;
        default:
            return true;
    }
}

Status run_pixel_op(const PixelOp& op, const PlanarImageView& pixels, const PlanarImageView& destination,
                    AlignedBuffer* scratch) noexcept {
    const auto factor = static_cast<float>(op.factor);  // Pillow takes it as one
    switch (op.kind) {
        case PixelOpKind::kIdentity:
            break;
        case PixelOpKind::kBrightness:
            adjust_brightness(factor, pixels);
            break;
        case PixelOpKind::kContrast:
            adjust_contrast(factor, pixels);
            break;
        case PixelOpKind::kSaturation:
            adjust_saturation(factor, pixels);
            break;
        case PixelOpKind::kSharpness:
            adjust_sharpness(factor, pixels, destination);
            break;
        case PixelOpKind::kHue:
            adjust_hue(op.factor, pixels);
            break;
        case PixelOpKind::kPosterize:
            posterize(op.bits, pixels);
            break;
        case PixelOpKind::kSolarize:
            solarize(op.threshold, pixels);
            break;
        case PixelOpKind::kAutocontrast:
            autocontrast(pixels);
            break;
        case PixelOpKind::kEqualize:
            equalize(pixels);
            break;
        case PixelOpKind::kInvert:
            invert(pixels);
            break;
        case PixelOpKind::kGrayscale:
            make_gray(pixels);
            break;
        case PixelOpKind::kAffine:
            return transform_affine(op.matrix, op.fill, pixels, destination, scratch);
        case PixelOpKind::kRotate90:
            rotate_90(pixels, destination);
            break;
        case PixelOpKind::kRotate180:
            rotate_180(pixels, destination);
            break;
        case PixelOpKind::kRotate270:
            rotate_270(pixels, destination);
            break;
    }
    return Status::ok();
}

}  // namespace fastload
