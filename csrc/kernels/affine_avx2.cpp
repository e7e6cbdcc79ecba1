#include <cstddef>
#include <cstdint>

#include "kernels/affine.h"
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

constexpr std::int32_t kLanes = 4;
// One gather reads a pixel and the three to its right.
constexpr std::int32_t kGathered = 4;

__attribute__((always_inline)) inline __m256d tap_of(__m128i gathered, int tap) noexcept {
    const __m128i pixels = _mm_and_si128(_mm_srli_epi32(gathered, 8 * tap), _mm_set1_epi32(255));
    return _mm256_cvtepi32_pd(pixels);
}

struct Bilinear {
    static constexpr std::int32_t kTaps = 2;
    static constexpr AffineFunction* kScalar = affine_bilinear_scalar;

    __attribute__((always_inline)) static inline __m256d blend(const __m256d* v, __m256d part) noexcept {
        return _mm256_add_pd(v[0], _mm256_mul_pd(_mm256_sub_pd(v[1], v[0]), part));
    }
};

struct Bicubic {
    static constexpr std::int32_t kTaps = 4;
    static constexpr AffineFunction* kScalar = affine_bicubic_scalar;

    __attribute__((always_inline)) static inline __m256d blend(const __m256d* v, __m256d part) noexcept {
        const __m256d p2 = _mm256_sub_pd(v[2], v[0]);
        const __m256d twice = _mm256_mul_pd(_mm256_set1_pd(2.0), _mm256_sub_pd(v[0], v[1]));
        const __m256d p3 = _mm256_sub_pd(_mm256_add_pd(twice, v[2]), v[3]);
        const __m256d p4 = _mm256_add_pd(_mm256_sub_pd(_mm256_sub_pd(v[1], v[0]), v[2]), v[3]);
        const __m256d inner = _mm256_add_pd(p3, _mm256_mul_pd(part, p4));
        const __m256d outer = _mm256_add_pd(p2, _mm256_mul_pd(part, inner));
        return _mm256_add_pd(v[1], _mm256_mul_pd(part, outer));
    }
};

// Positions along an axis: the first pixel that a filter reads, and the distance of each from the pixel it counts from.
struct Positions {
    __m128i first;
    __m256d part;
};

template <typename Filter>
__attribute__((always_inline)) inline Positions positions_of(const double* row, __m256d center_x,
                                                             double center_y) noexcept {
    // Values that do not fit into the integers become the smallest of them.
    const __m256d in_columns = _mm256_mul_pd(_mm256_set1_pd(row[0]), center_x);
    const __m256d position =
        _mm256_add_pd(_mm256_add_pd(in_columns, _mm256_set1_pd(row[1] * center_y)), _mm256_set1_pd(row[2]));
    const __m256d at_centres = _mm256_sub_pd(position, _mm256_set1_pd(0.5));
    const __m256d whole = _mm256_floor_pd(at_centres);
    const __m128i before = _mm_set1_epi32(Filter::kTaps / 2 - 1);
    return {_mm_sub_epi32(_mm256_cvttpd_epi32(whole), before), _mm256_sub_pd(at_centres, whole)};
}

// True if all `count` pixels from `first` on are inside of an axis.
__attribute__((always_inline)) inline bool are_inside(__m128i first, std::int32_t count, std::int32_t limit) noexcept {
    const __m128i is_behind_start = _mm_cmpgt_epi32(first, _mm_set1_epi32(-1));
    const __m128i is_before_end = _mm_cmplt_epi32(first, _mm_set1_epi32(limit - count + 1));
    return _mm_movemask_epi8(_mm_and_si128(is_behind_start, is_before_end)) == 0xFFFF;
}

// Pixels of one plane as bytes. `places` are the positions of the first pixel read for each.
template <typename Filter>
__attribute__((always_inline)) inline std::int32_t sample(const std::uint8_t* plane, std::size_t stride, __m128i places,
                                                          __m256d x_part, __m256d y_part) noexcept {
    __m256d in_rows[Filter::kTaps];
    for (std::int32_t row = 0; row < Filter::kTaps; ++row) {
        const auto* pixels = reinterpret_cast<const int*>(plane + stride * static_cast<std::size_t>(row));
        const __m128i gathered = _mm_i32gather_epi32(pixels, places, 1);
        __m256d values[Filter::kTaps];
        for (int tap = 0; tap < Filter::kTaps; ++tap) values[tap] = tap_of(gathered, tap);
        in_rows[row] = Filter::blend(values, x_part);
    }
    const __m256d blended = Filter::blend(in_rows, y_part);
    const __m256d clipped = _mm256_min_pd(_mm256_max_pd(blended, _mm256_setzero_pd()), _mm256_set1_pd(255.0));
    const __m128i lowest_bytes = _mm_set1_epi32(0x0C080400);
    return _mm_cvtsi128_si32(_mm_shuffle_epi8(_mm256_cvttpd_epi32(clipped), lowest_bytes));
}

template <typename Filter>
void transform(const AffineRun& run) noexcept {
    const PlanarImageView& source = run.source;
    const std::size_t stride = source.row_stride_bytes;
    // Positions are 32-bit integers.
    const bool is_small = stride * static_cast<std::size_t>(source.height) <= INT32_MAX;
    const double center_y = run.y + 0.5;
    const __m256d lane_centers = _mm256_setr_pd(0.5, 1.5, 2.5, 3.5);
    std::int32_t i = 0;
    for (; is_small && i + kLanes <= run.count; i += kLanes) {
        const __m256d center_x = _mm256_add_pd(_mm256_set1_pd(run.x + i), lane_centers);
        const Positions x = positions_of<Filter>(run.matrix, center_x, center_y);
        const Positions y = positions_of<Filter>(run.matrix + 3, center_x, center_y);
        if (are_inside(x.first, kGathered, source.width) && are_inside(y.first, Filter::kTaps, source.height)) {
            const __m128i rows = _mm_mullo_epi32(y.first, _mm_set1_epi32(static_cast<int>(stride)));
            const __m128i places = _mm_add_epi32(rows, x.first);
            for (int plane = 0; plane < 3; ++plane) {
                const std::int32_t pixels = sample<Filter>(source.planes[plane], stride, places, x.part, y.part);
                __builtin_memcpy(run.to[plane] + i, &pixels, sizeof(pixels));
            }
        } else {
            Filter::kScalar(
                {run.matrix, source, {run.to[0] + i, run.to[1] + i, run.to[2] + i}, run.x + i, run.y, kLanes});
        }
    }
    Filter::kScalar(
        {run.matrix, source, {run.to[0] + i, run.to[1] + i, run.to[2] + i}, run.x + i, run.y, run.count - i});
}

}  // namespace

void affine_bilinear_avx2(const AffineRun& run) noexcept { transform<Bilinear>(run); }

void affine_bicubic_avx2(const AffineRun& run) noexcept { transform<Bicubic>(run); }

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
