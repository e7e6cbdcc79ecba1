// Pillow's transposes, and torchvision's RandomHorizontalFlip and RandomVerticalFlip.
#pragma once

#include "image/plan/step.h"
#include "image/steps/pixel_op.h"

namespace fastload {

struct VerticalFlip final : RemakingOp {
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override { return {"vflip"}; }
};

// Columns become rows: pixel (x, y) goes to row x and column y, each of them counted from the other side if it is
// reversed.
class AxisExchange : public RemakingOp {
  public:
    ImageSize size_after(ImageSize size) const noexcept final { return {size.height, size.width}; }
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept final;
    OperationReport report() const final { return {name_}; }

  protected:
    AxisExchange(const char* name, bool reverses_rows, bool reverses_columns) noexcept
        : name_(name), reverses_rows_(reverses_rows), reverses_columns_(reverses_columns) {}

  private:
    const char* name_;
    bool reverses_rows_;
    bool reverses_columns_;
};

// Counter-clockwise.
struct Rotate90 final : AxisExchange {
    Rotate90() noexcept : AxisExchange("rotate90", true, false) {}
};

struct Rotate180 final : RemakingOp {
    Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                  Workspace* workspace) const noexcept override;
    OperationReport report() const override { return {"rotate180"}; }
};

struct Rotate270 final : AxisExchange {
    Rotate270() noexcept : AxisExchange("rotate270", false, true) {}
};

// Mirrors at the main diagonal.
struct Transpose final : AxisExchange {
    Transpose() noexcept : AxisExchange("transpose", false, false) {}
};

// Mirrors at the other diagonal.
struct Transverse final : AxisExchange {
    Transverse() noexcept : AxisExchange("transverse", true, true) {}
};

struct RandomHorizontalFlip final : MaybeStep {
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

struct RandomVerticalFlip final : MaybeStep {
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

}  // namespace fastload
