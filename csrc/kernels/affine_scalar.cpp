#include "kernels/affine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fastload {
namespace {

struct Bilinear {
    static constexpr int kTaps = 2;

    // Differences of two pixels are integers, as in Pillow; doubles hold them exactly.
    static double blend(const double (&v)[kTaps], double part) noexcept { return v[0] + (v[1] - v[0]) * part; }
};

struct Bicubic {
    static constexpr int kTaps = 4;

    static double blend(const double (&v)[kTaps], double part) noexcept {
        const double p2 = -v[0] + v[2];
        const double p3 = 2.0 * (v[0] - v[1]) + v[2] - v[3];
        const double p4 = -v[0] + v[1] - v[2] + v[3];
        return v[1] + part * (p2 + part * (p3 + part * p4));
    }
};

// The pixels along an axis around a position, and the distance of that position from the pixel the filter counts from.
template <int kTaps>
struct Neighbours {
    std::size_t places[kTaps];
    double part;
};

// `position` is in [0, limit). Beyond the ends the outermost pixel is repeated.
template <int kTaps>
Neighbours<kTaps> around(double position, std::int32_t limit, std::size_t stride) noexcept {
    const double at_centres = position - 0.5;
    const std::int32_t whole = at_centres < 0.0 ? -1 : static_cast<std::int32_t>(at_centres);
    Neighbours<kTaps> result;
    result.part = at_centres - whole;
    const std::int32_t first = whole - (kTaps / 2 - 1);
    for (int tap = 0; tap < kTaps; ++tap) {
        result.places[tap] = stride * static_cast<std::size_t>(std::clamp(first + tap, 0, limit - 1));
    }
    return result;
}

template <typename Filter>
std::uint8_t sample(const std::uint8_t* plane, const Neighbours<Filter::kTaps>& columns,
                    const Neighbours<Filter::kTaps>& rows) noexcept {
    double in_rows[Filter::kTaps];
    for (int row = 0; row < Filter::kTaps; ++row) {
        double values[Filter::kTaps];
        for (int column = 0; column < Filter::kTaps; ++column) {
            values[column] = plane[rows.places[row] + columns.places[column]];
        }
        in_rows[row] = Filter::blend(values, columns.part);
    }
    return static_cast<std::uint8_t>(std::clamp(Filter::blend(in_rows, rows.part), 0.0, 255.0));
}

template <typename Filter>
void transform(const AffineRun& run) noexcept {
    const double* m = run.matrix;
    const PlanarImageView& source = run.source;
    const double center_y = run.y + 0.5;
    for (std::int32_t i = 0; i < run.count; ++i) {
        const double center_x = run.x + i + 0.5;
        const double from_x = m[0] * center_x + m[1] * center_y + m[2];
        const double from_y = m[3] * center_x + m[4] * center_y + m[5];
        const bool is_inside = from_x >= 0.0 && from_x < source.width && from_y >= 0.0 && from_y < source.height;
        if (!is_inside) continue;
        const auto columns = around<Filter::kTaps>(from_x, source.width, 1);
        const auto rows = around<Filter::kTaps>(from_y, source.height, source.row_stride_bytes);
        for (int plane = 0; plane < 3; ++plane) {
            run.to[plane][i] = sample<Filter>(source.planes[plane], columns, rows);
        }
    }
}

}  // namespace

void affine_bilinear_scalar(const AffineRun& run) noexcept { transform<Bilinear>(run); }

void affine_bicubic_scalar(const AffineRun& run) noexcept { transform<Bicubic>(run); }

}  // namespace fastload
