#include "image/steps/resize_shorter_side.h"

#include <algorithm>

#include "image/plan/argument_checks.h"
#include "image/steps/resize.h"

namespace fastload {

LongSize ResizeShorterSide::size_of(ImageSize image) const noexcept {
    const bool is_upright = image.width <= image.height;
    const std::int64_t short_side = std::min(image.width, image.height);
    const std::int64_t long_side = std::max(image.width, image.height);
    std::int64_t new_short = size;
    // Python's int(a * b / c): the quotient of the exact product, rounded to double and then truncated.
    auto new_long = static_cast<std::int64_t>(static_cast<double>(size * long_side) / static_cast<double>(short_side));
    if (max_size && new_long > *max_size) {
        new_short =
            static_cast<std::int64_t>(static_cast<double>(*max_size * new_short) / static_cast<double>(new_long));
        new_long = *max_size;
    }
    return is_upright ? LongSize{new_short, new_long} : LongSize{new_long, new_short};
}

std::string ResizeShorterSide::check() const {
    std::string problem = check_side("size", size);
    if (!problem.empty() || !max_size) return problem;
    problem = check_side("max_size", *max_size);
    if (!problem.empty() || *max_size > size) return problem;
    return sentence("max_size", "greater than size", *max_size);
}

std::optional<LongSize> ResizeShorterSide::size_after(std::optional<ImageSize> before) const {
    return before ? std::optional<LongSize>(size_of(*before)) : std::nullopt;
}

Status ResizeShorterSide::resolve(DrawSource*, Resolver* resolver) const noexcept {
    const LongSize to = size_of(resolver->size());
    if (!to.is_possible()) {
        return {StatusCode::kInvalidGeometry, 0, 0,
                "a side of the resized image is not in 1..1048576, as native images need (docs/transforms.md)"};
    }
    resize_image(to.as_image_size(), interpolation, resolver);
    return Status::ok();
}

}  // namespace fastload
