// The operations on decoded pixels that torchvision runs on PIL images, with the bytes that Pillow gives.
#pragma once

#include <string>

#include "base/image_view.h"
#include "base/status.h"
#include "image/plan/operation.h"
#include "image/plan/resolver.h"

namespace fastload {

struct Workspace;

// With all its parameters; the same for every sample. Steps hold such operations, or make them of draws.
class PixelOp : public Operation {
  public:
    // As Step::check().
    virtual std::string check() const { return ""; }

    // The size behind it.
    virtual ImageSize size_after(ImageSize size) const noexcept { return size; }

    // Whether torchvision would still have Image.info.
    virtual bool keeps_info() const noexcept { return true; }

    // Whether it does nothing at all; then nobody lists it.
    virtual bool is_identity() const noexcept { return false; }
};

// What an operation that was just listed does to the image.
void follow_op(const PixelOp& op, Resolver* resolver) noexcept;

// As check(), of a factor of ImageEnhance, which blends an image with a degenerate one and takes it as float32.
std::string check_blend_factor(double factor);

// Lists an operation that a step of the plan holds.
void list_op(const PixelOp& op, Resolver* resolver) noexcept;

// Lists an operation that is made for this sample.
template <typename Op>
void list_made_op(const Op& op, Resolver* resolver) noexcept {
    resolver->make(op);
    follow_op(op, resolver);
}

// Changes the pixels where they are.
class InPlaceOp : public PixelOp {
  public:
    Status run(WorkingImage* image) const noexcept final;
    virtual void change(const PlanarImageView& pixels) const noexcept = 0;
};

// Makes another image.
class RemakingOp : public PixelOp {
  public:
    Status run(WorkingImage* image) const noexcept final;
    // Writes the result of size_after() to `destination`, which does not overlap. Fails with
    // kOutOfMemory only.
    virtual Status remake(const PlanarImageView& source, const PlanarImageView& destination,
                          Workspace* workspace) const noexcept = 0;
};

// One that a policy may choose.
struct Identity final : InPlaceOp {
    bool is_identity() const noexcept override { return true; }
    void change(const PlanarImageView&) const noexcept override {}
    OperationReport report() const override { return {"identity"}; }
};

}  // namespace fastload
