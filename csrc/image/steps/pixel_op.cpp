#include "image/steps/pixel_op.h"

#include <cmath>

#include "image/plan/argument_checks.h"
#include "image/plan/working_image.h"

namespace fastload {

std::string check_blend_factor(double factor) {
    return std::fabs(factor) <= kLargestFloat ? "" : sentence("factor", "a float32 number", factor);
}

void follow_op(const PixelOp& op, Resolver* resolver) noexcept {
    if (!op.keeps_info()) resolver->drop_info();
    resolver->move_pixels(op.size_after(resolver->size()));
}

void list_op(const PixelOp& op, Resolver* resolver) noexcept {
    if (op.is_identity()) return;
    resolver->add(op);
    follow_op(op, resolver);
}

Status InPlaceOp::run(WorkingImage* image) const noexcept {
    PlanarImageView rows;
    if (Status status = image->gather(&rows); !status.is_ok()) return status;
    change(rows);
    return Status::ok();
}

Status RemakingOp::run(WorkingImage* image) const noexcept {
    return image->remake(size_after(image->size()),
                         [&](const PlanarImageView& source, const PlanarImageView& destination) {
                             return remake(source, destination, &image->workspace());
                         });
}

}  // namespace fastload
