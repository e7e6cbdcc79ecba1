// The operations on decoded pixels that torchvision runs on PIL images, with the same bytes as Pillow.
#pragma once

#include <string>

#include "base/image_view.h"
#include "base/status.h"
#include "image/plan/operation.h"
#include "image/plan/resolver.h"

namespace fastload {

struct Workspace;

// An operation with all its parameters; the same for every sample. Steps own such operations, or make them from draws.
class PixelOp : public Operation {
  public:
    // Like Step::check().
    virtual std::string check() const { return ""; }

    // The size after it.
    virtual ImageSize size_after(ImageSize size) const noexcept { return size; }

    // True if torchvision would still have Image.info.
    virtual bool keeps_info() const noexcept { return true; }

    // True if it changes nothing at all; then it is not listed.
    virtual bool is_identity() const noexcept { return false; }
};

// Tells the resolver what an operation that was just listed does to the image.
void follow_op(const PixelOp& op, Resolver* resolver) noexcept;

// Like check(), for a factor of ImageEnhance, which blends an image with a degenerate one and stores it as float32.
std::string check_blend_factor(double factor);

// Lists an operation that a step of the plan owns.
void list_op(const PixelOp& op, Resolver* resolver) noexcept;

// Lists an operation that is made for this sample.
template <typename Op>
void list_made_op(const Op& op, Resolver* resolver) noexcept {
    resolver->make(op);
    follow_op(op, resolver);
}

// Changes the pixels in place.
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

// An operation that a policy may choose.
struct Identity final : InPlaceOp {
    bool is_identity() const noexcept override { return true; }
    void change(const PlanarImageView&) const noexcept override {}
    OperationReport report() const override { return {"identity"}; }
};

}  // namespace fastload
