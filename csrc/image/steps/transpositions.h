// Pillow's transposes.
#pragma once

#include "image/steps/pixel_op.h"

namespace fastload {

// `destination` has the size of `source` and does not overlap it.
void flip_vertically(const PlanarImageView& source, const PlanarImageView& destination) noexcept;

// Counter-clockwise.
struct Rotate90 final : RemakingOp {
    ImageSize size_after(ImageSize size) const noexcept override { return {size.height, size.width}; }
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override { return {"rotate90"}; }
};

struct Rotate180 final : RemakingOp {
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override { return {"rotate180"}; }
};

// Mirrors at the main diagonal.
struct Transpose final : RemakingOp {
    ImageSize size_after(ImageSize size) const noexcept override { return {size.height, size.width}; }
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override { return {"transpose"}; }
};

// Mirrors at the other diagonal.
struct Transverse final : RemakingOp {
    ImageSize size_after(ImageSize size) const noexcept override { return {size.height, size.width}; }
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override { return {"transverse"}; }
};

struct Rotate270 final : RemakingOp {
    ImageSize size_after(ImageSize size) const noexcept override { return {size.height, size.width}; }
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override { return {"rotate270"}; }
};

}  // namespace fastload
