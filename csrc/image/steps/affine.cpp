#include "image/steps/affine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

#include "image/pixels/nearest_axis.h"
#include "image/plan/argument_checks.h"
#include "image/plan/working_image.h"
#include "image/steps/transpositions.h"

namespace fastload {
namespace {

using Matrix = std::array<double, 6>;

void copy_pixel(const PlanarImageView& source, std::int32_t from_x, std::int32_t from_y,
                const PlanarImageView& destination, std::size_t to) noexcept {
    const std::size_t from =
        static_cast<std::size_t>(from_y) * source.row_stride_bytes + static_cast<std::size_t>(from_x);
    for (int plane = 0; plane < 3; ++plane) destination.planes[plane][to] = source.planes[plane][from];
}

// True if a corner lands in the range of 16.16 fixed point.
bool is_in_fixed_range(const Matrix& m, std::int32_t x, std::int32_t y) noexcept {
    return std::fabs(x * m[0] + y * m[1] + m[2]) < 32768.0 && std::fabs(x * m[3] + y * m[4] + m[5]) < 32768.0;
}

bool fits_fixed_point(const Matrix& m, const PlanarImageView& image) noexcept {
    return is_in_fixed_range(m, 0, 0) && is_in_fixed_range(m, image.width, image.height) &&
           is_in_fixed_range(m, 0, image.height) && is_in_fixed_range(m, image.width, 0);
}

// A number in 16.16 fixed point, rounded half up. Unsigned, because it may wrap like Pillow's machine integers.
std::uint32_t to_fixed(double value) noexcept {
    const double scaled = std::floor(value * 65536.0 + 0.5);
    const bool fits =
        scaled >= std::numeric_limits<std::int32_t>::min() && scaled <= std::numeric_limits<std::int32_t>::max();
    // Outside of the range, x86 converts to the smallest integer.
    return static_cast<std::uint32_t>(fits ? static_cast<std::int32_t>(scaled)
                                           : std::numeric_limits<std::int32_t>::min());
}

std::int32_t whole_part(std::uint32_t fixed) noexcept { return static_cast<std::int32_t>(fixed) >> 16; }

void transform_in_fixed_point(const Matrix& m, const PlanarImageView& source,
                              const PlanarImageView& destination) noexcept {
    const std::uint32_t x_step = to_fixed(m[0]);
    const std::uint32_t y_step = to_fixed(m[3]);
    std::uint32_t row_x = to_fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
    std::uint32_t row_y = to_fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
    for (std::int32_t y = 0; y < destination.height; ++y) {
        const std::size_t row = static_cast<std::size_t>(y) * destination.row_stride_bytes;
        std::uint32_t fixed_x = row_x;
        std::uint32_t fixed_y = row_y;
        for (std::int32_t x = 0; x < destination.width; ++x) {
            const std::int32_t from_x = whole_part(fixed_x);
            const std::int32_t from_y = whole_part(fixed_y);
            const bool is_inside = from_x >= 0 && from_x < source.width && from_y >= 0 && from_y < source.height;
            if (is_inside) copy_pixel(source, from_x, from_y, destination, row + static_cast<std::size_t>(x));
            fixed_x += x_step;
            fixed_y += y_step;
        }
        row_x += to_fixed(m[1]);
        row_y += to_fixed(m[4]);
    }
}

void transform_in_floating_point(const Matrix& m, const PlanarImageView& source,
                                 const PlanarImageView& destination) noexcept {
    double row_x = m[2] + m[1] * 0.5 + m[0] * 0.5;
    double row_y = m[5] + m[4] * 0.5 + m[3] * 0.5;
    for (std::int32_t y = 0; y < destination.height; ++y) {
        const std::size_t row = static_cast<std::size_t>(y) * destination.row_stride_bytes;
        double from_x = row_x;
        double from_y = row_y;
        for (std::int32_t x = 0; x < destination.width; ++x) {
            const bool is_inside = from_x >= 0.0 && from_x < source.width && from_y >= 0.0 && from_y < source.height;
            if (is_inside) {
                copy_pixel(source, static_cast<std::int32_t>(from_x), static_cast<std::int32_t>(from_y), destination,
                           row + static_cast<std::size_t>(x));
            }
            from_x += m[0];
            from_y += m[3];
        }
        row_x += m[1];
        row_y += m[4];
    }
}

Status interpolate(AffineFunction kernel, const Matrix& m, const PlanarImageView& source,
                   const PlanarImageView& destination) noexcept {
    AffineRun run = {m.data(), source, {}, 0, 0, destination.width};
    for (; run.y < destination.height; ++run.y) {
        for (int plane = 0; plane < 3; ++plane) run.to[plane] = destination.row(plane, run.y);
        kernel(run);
    }
    return Status::ok();
}

std::string check_affine_interpolation(Interpolation interpolation) {
    constexpr Interpolation kKnown[] = {Interpolation::kNearest, Interpolation::kBilinear, Interpolation::kBicubic};
    const bool is_known = std::find(std::begin(kKnown), std::end(kKnown), interpolation) != std::end(kKnown);
    return is_known ? "" : sentence("interpolation", "nearest, bilinear or bicubic", name_of(interpolation));
}

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

std::string Affine::check() const {
    const auto* bad = std::find_if(matrix.begin(), matrix.end(), [](double x) { return !std::isfinite(x); });
    if (bad != matrix.end()) return sentence("matrix", "six finite numbers", *bad);
    return check_affine_interpolation(interpolation);
}

Status Affine::remake(const PlanarImageView& source, const PlanarImageView& destination,
                      Workspace* workspace) const noexcept {
    fill_image(fill, destination);
    const KernelTable& kernels = workspace->kernels;
    if (interpolation == Interpolation::kBilinear) {
        return interpolate(kernels.affine_bilinear, matrix, source, destination);
    }
    if (interpolation == Interpolation::kBicubic) {
        return interpolate(kernels.affine_bicubic, matrix, source, destination);
    }
    if (matrix[1] == 0.0 && matrix[3] == 0.0) {
        return scale_nearest(source, {matrix[2], matrix[0]}, {matrix[5], matrix[4]}, destination,
                             &workspace->positions);
    }
    if (fits_fixed_point(matrix, destination)) {
        transform_in_fixed_point(matrix, source, destination);
    } else {
        transform_in_floating_point(matrix, source, destination);
    }
    return Status::ok();
}

OperationReport Affine::report() const {
    const auto& [a, b, c, d, e, f] = matrix;
    return {"affine", a, b, c, d, e, f, fill, name_of(interpolation)};
}

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
