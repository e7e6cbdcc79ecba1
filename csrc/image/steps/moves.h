// Pillow's transposes and affine transforms.
#pragma once

#include <array>
#include <string>

#include "image/pixels/fill_image.h"
#include "image/pixels/rotation.h"
#include "image/steps/pixel_op.h"

namespace fastload {

// Nearest neighbour, to an image of the same size: pixel (x, y) comes from (a x + b y + c, d x + e y + f) of `matrix`,
// else `fill`.
struct Affine final : RemakingOp {
    std::array<double, 6> matrix{};
    RgbFill fill{};

    std::string check() const override;
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  AlignedBuffer* scratch) const noexcept override;
    OperationReport report() const override;
};

// Counter-clockwise; width and height change places.
struct Rotate90 final : RemakingOp {
    ImageSize size_after(ImageSize size) const noexcept override { return {size.height, size.width}; }
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  AlignedBuffer* scratch) const noexcept override;
    OperationReport report() const override { return {"rotate90"}; }
};

struct Rotate180 final : RemakingOp {
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  AlignedBuffer* scratch) const noexcept override;
    OperationReport report() const override { return {"rotate180"}; }
};

struct Rotate270 final : RemakingOp {
    ImageSize size_after(ImageSize size) const noexcept override { return {size.height, size.width}; }
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  AlignedBuffer* scratch) const noexcept override;
    OperationReport report() const override { return {"rotate270"}; }
};

}  // namespace fastload
