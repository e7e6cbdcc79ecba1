#include "image/steps/random_rotation.h"

#include <cmath>

#include "image/plan/argument_checks.h"
#include "image/steps/affine.h"
#include "image/steps/transpositions.h"

namespace fastload {
namespace {

constexpr double kRadiansPerDegree = 3.14159265358979323846 / 180.0;

// Python's angle % 360.0.
double modulo_turn(double angle) noexcept {
    const double rest = std::fmod(angle, 360.0);
    return rest < 0.0 ? rest + 360.0 : std::fabs(rest);
}

// Python's round(value, 15) for |value| <= 1: the product is rounded half to even as if it were exact.
double round_to_15_digits(double value) noexcept {
    const double scaled = value * 1e15;
    const double missing = std::fma(value, 1e15, -scaled);
    double digits = std::nearbyint(scaled);
    if (scaled - digits == 0.5 && missing > 0.0) digits += 1.0;
    if (scaled - digits == -0.5 && missing < 0.0) digits -= 1.0;
    return digits / 1e15;
}

// As Pillow's Image.rotate() computes it, sum by sum.
Affine rotation(double angle, double center_x, double center_y) noexcept {
    const double radians = -(angle * kRadiansPerDegree);
    const double cosine = round_to_15_digits(std::cos(radians));
    const double sine = round_to_15_digits(std::sin(radians));
    const double minus_sine = round_to_15_digits(-std::sin(radians));
    Affine affine;
    affine.matrix = {cosine,     sine,   cosine * -center_x + sine * -center_y + 0.0 + center_x,
                     minus_sine, cosine, minus_sine * -center_x + cosine * -center_y + 0.0 + center_y};
    return affine;
}

}  // namespace

std::string RandomRotation::check() const {
    if (!(degrees[0] <= degrees[1]) || !(std::fabs(degrees[0]) <= kLargestFloat) ||
        !(std::fabs(degrees[1]) <= kLargestFloat)) {
        return sentence("degrees", "two float32 numbers with first <= second", pair_text(degrees[0], degrees[1]));
    }
    if (center && !(std::isfinite((*center)[0]) && std::isfinite((*center)[1]))) {
        return sentence("center", "two finite numbers", pair_text((*center)[0], (*center)[1]));
    }
    return check_affine_interpolation(interpolation);
}

Status RandomRotation::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    const ImageSize size = resolver->size();
    const double angle = modulo_turn(
        static_cast<double>(draws->uniform(static_cast<float>(degrees[0]), static_cast<float>(degrees[1]))));
    if (!center && angle == 0.0) return Status::ok();
    const bool is_square = size.width == size.height;
    if (!center && angle == 180.0) {
        list_made_op(Rotate180(), resolver);
    } else if (!center && is_square && angle == 90.0) {
        list_made_op(Rotate90(), resolver);
    } else if (!center && is_square && angle == 270.0) {
        list_made_op(Rotate270(), resolver);
    } else {
        const double x = center ? (*center)[0] : size.width / 2.0;
        const double y = center ? (*center)[1] : size.height / 2.0;
        Affine affine = rotation(angle, x, y);
        affine.fill = fill;
        affine.interpolation = interpolation;
        list_made_op(affine, resolver);
    }
    return Status::ok();
}

}  // namespace fastload
