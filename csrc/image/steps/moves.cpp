#include "image/steps/moves.h"

#include <algorithm>
#include <cmath>

#include "image/pixels/affine.h"
#include "image/plan/argument_checks.h"

namespace fastload {

std::string Affine::check() const {
    const auto* bad = std::find_if(matrix.begin(), matrix.end(), [](double x) { return !std::isfinite(x); });
    return bad == matrix.end() ? "" : sentence("matrix", "six finite numbers", *bad);
}

Status Affine::remake(const PlanarImageView& source, const PlanarImageView& destination,
                      AlignedBuffer* scratch) const noexcept {
    return transform_affine(matrix, fill, source, destination, scratch);
}

OperationReport Affine::report() const {
    const auto& [a, b, c, d, e, f] = matrix;
    return {"affine", a, b, c, d, e, f, fill};
}

Status Rotate90::remake(const PlanarImageView& source, const PlanarImageView& destination,
                        AlignedBuffer*) const noexcept {
    rotate_90(source, destination);
    return Status::ok();
}

Status Rotate180::remake(const PlanarImageView& source, const PlanarImageView& destination,
                         AlignedBuffer*) const noexcept {
    rotate_180(source, destination);
    return Status::ok();
}

Status Rotate270::remake(const PlanarImageView& source, const PlanarImageView& destination,
                         AlignedBuffer*) const noexcept {
    rotate_270(source, destination);
    return Status::ok();
}

}  // namespace fastload
