#include "kernels/box_blur.h"
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

constexpr int kLanes = 8;
constexpr int kVectors = 4;  // of sums that stay in registers
constexpr int kLinesAtOnce = kVectors * kLanes;

__attribute__((always_inline)) inline const std::uint8_t* pixels_at(const std::uint8_t* lines, std::int32_t i,
                                                                    std::int32_t length) noexcept {
    const std::int32_t inside = i < 0 ? 0 : i < length ? i : length - 1;
    return lines + kBoxBlurLines * static_cast<std::size_t>(inside);
}

__attribute__((always_inline)) inline __m256i widen(const std::uint8_t* bytes) noexcept {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
}

__attribute__((always_inline)) inline void add_pixels(const std::uint8_t* pixels, std::int32_t times,
                                                      __m256i* sums) noexcept {
    const __m256i factor = _mm256_set1_epi32(times);
    for (int v = 0; v < kVectors; ++v) {
        sums[v] = _mm256_add_epi32(sums[v], _mm256_mullo_epi32(widen(pixels + v * kLanes), factor));
    }
}

// Four vectors of means as bytes.
__attribute__((always_inline)) inline __m256i narrow(const __m256i* means) noexcept {
    const __m256i front = _mm256_packus_epi32(means[0], means[1]);
    const __m256i back = _mm256_packus_epi32(means[2], means[3]);
    // Packs work in halves of 128 bits: 4 bytes of each vector are in the lower half, and 4 in the upper one.
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(front, back), order);
}

void blur_lines(const BoxWeights& box, const std::uint8_t* from, std::int32_t length, std::uint8_t* to) noexcept {
    __m256i sums[kVectors] = {};
    // The window before the first pixel.
    const std::int32_t inside = box.reach < length ? box.reach : length;
    add_pixels(from, box.reach + 1, sums);
    for (std::int32_t i = 0; i < inside; ++i) add_pixels(pixels_at(from, i, length), 1, sums);
    add_pixels(pixels_at(from, length, length), box.reach - inside, sums);
    const __m256i weight = _mm256_set1_epi32(static_cast<int>(box.weight));
    const __m256i edge_weight = _mm256_set1_epi32(static_cast<int>(box.edge_weight));
    const __m256i half = _mm256_set1_epi32(1 << (kBoxWeightBits - 1));
    for (std::int32_t i = 0; i < length; ++i) {
        const std::uint8_t* left = pixels_at(from, i - box.reach - 1, length);
        const std::uint8_t* right = pixels_at(from, i + box.reach, length);
        const std::uint8_t* behind_right = pixels_at(from, i + box.reach + 1, length);
        __m256i means[kVectors];
        for (int v = 0; v < kVectors; ++v) {
            const __m256i leaving = widen(left + v * kLanes);
            sums[v] = _mm256_add_epi32(sums[v], _mm256_sub_epi32(widen(right + v * kLanes), leaving));
            const __m256i edges = _mm256_add_epi32(leaving, widen(behind_right + v * kLanes));
            const __m256i weighted =
                _mm256_add_epi32(_mm256_mullo_epi32(sums[v], weight), _mm256_mullo_epi32(edges, edge_weight));
            means[v] = _mm256_srli_epi32(_mm256_add_epi32(weighted, half), kBoxWeightBits);
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow(means));
        to += kBoxBlurLines;
    }
}

static_assert(kBoxBlurLines == 2 * kLinesAtOnce, "two halves");

}  // namespace

void box_blur_avx2(const BoxWeights& box, const std::uint8_t* from, std::int32_t length, std::uint8_t* to) noexcept {
    blur_lines(box, from, length, to);
    blur_lines(box, from + kLinesAtOnce, length, to + kLinesAtOnce);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
