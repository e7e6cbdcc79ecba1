#include "kernels/blur.h"
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

constexpr int kLanes = 8;
constexpr int kBlockRows = 4;
constexpr int kMaxVectors = 3;  // 12 sums, 3 vectors of pixels and a weight: 16 registers

// Adds one row of pixels to the sums of rows [kFirst, kLast) of a block. Rows of the block share the loads: row r of
// the pixels meets row r - o of the weights for row o of the block, so each sum still sees the rows in order.
template <int kVectors, int kRows, int kFirst, int kLast>
__attribute__((always_inline)) inline void add_pixels(const float* pixels, const float* weights, int kernel_width,
                                                      __m256 (&sums)[kRows][kVectors]) noexcept {
    for (int j = 0; j < kernel_width; ++j) {
        __m256 columns[kVectors];
        for (int v = 0; v < kVectors; ++v) columns[v] = _mm256_loadu_ps(pixels + j + v * kLanes);
        for (int o = kFirst; o < kLast; ++o) {
            const __m256 weight = _mm256_set1_ps(weights[j - o * kernel_width]);
            for (int v = 0; v < kVectors; ++v) sums[o][v] = _mm256_fmadd_ps(columns[v], weight, sums[o][v]);
        }
    }
}

template <int kVectors, int kRows>
inline void store_unrounded(const __m256 (&sums)[kRows][kVectors], float* destination, std::size_t stride) noexcept {
    for (int o = 0; o < kRows; ++o) {
        for (int v = 0; v < kVectors; ++v) {
            _mm256_storeu_ps(destination + static_cast<std::size_t>(o) * stride + v * kLanes, sums[o][v]);
        }
    }
}

template <int kVectors, int kRows>
inline void store_rounded(const __m256 (&sums)[kRows][kVectors], std::uint8_t* destination,
                          std::size_t stride) noexcept {
    for (int o = 0; o < kRows; ++o) {
        for (int v = 0; v < kVectors; ++v) {
            const __m256i rounded = _mm256_cvtps_epi32(sums[o][v]);
            const __m128i words =
                _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
            _mm_storel_epi64(
                reinterpret_cast<__m128i*>(destination + static_cast<std::size_t>(o) * stride + v * kLanes),
                _mm_packus_epi16(words, words));
        }
    }
}

// Stores a block whose first pixel is (x, y).
template <int kVectors, int kRows>
inline void store_sums(const __m256 (&sums)[kRows][kVectors], const BlurJob& job, std::size_t x,
                       std::size_t y) noexcept {
    if (job.sums != nullptr) {
        store_unrounded(sums, job.sums + y * job.sums_stride + x, job.sums_stride);
    } else {
        store_rounded(sums, job.destination + y * job.destination_stride_bytes + x, job.destination_stride_bytes);
    }
}

// Four rows of the result, for kernels of three rows or more.
template <int kVectors>
void blur_rows(const BlurJob& job, std::size_t x, std::size_t y) noexcept {
    __m256 sums[kBlockRows][kVectors];
    for (int o = 0; o < kBlockRows; ++o) {
        for (int v = 0; v < kVectors; ++v) sums[o][v] = _mm256_setzero_ps();
    }
    const std::size_t stride = job.padded_stride;
    const float* padded = job.padded + y * stride + x;
    const int width = job.kernel_width;
    const float* weights = job.weights;
    add_pixels<kVectors, kBlockRows, 0, 1>(padded, weights, width, sums);
    add_pixels<kVectors, kBlockRows, 0, 2>(padded += stride, weights += width, width, sums);
    add_pixels<kVectors, kBlockRows, 0, 3>(padded += stride, weights += width, width, sums);
    for (int r = 3; r < job.kernel_height; ++r) {
        add_pixels<kVectors, kBlockRows, 0, 4>(padded += stride, weights += width, width, sums);
    }
    add_pixels<kVectors, kBlockRows, 1, 4>(padded += stride, weights += width, width, sums);
    add_pixels<kVectors, kBlockRows, 2, 4>(padded += stride, weights += width, width, sums);
    add_pixels<kVectors, kBlockRows, 3, 4>(padded += stride, weights += width, width, sums);
    store_sums(sums, job, x, y);
}

// One row of the result.
template <int kVectors>
void blur_row(const BlurJob& job, std::size_t x, std::size_t y) noexcept {
    __m256 sums[1][kVectors];
    const float* padded = job.padded + y * job.padded_stride + x;
    for (int v = 0; v < kVectors; ++v) sums[0][v] = _mm256_setzero_ps();
    const float* weights = job.weights;
    for (int r = 0; r < job.kernel_height; ++r) {
        add_pixels<kVectors, 1, 0, 1>(padded, weights, job.kernel_width, sums);
        padded += job.padded_stride;
        weights += job.kernel_width;
    }
    store_sums(sums, job, x, y);
}

// All rows of kVectors * kLanes columns from `x` on.
template <int kVectors>
void blur_columns(const BlurJob& job, std::size_t x) noexcept {
    const int block_rows = job.kernel_height < 3 || job.height < kBlockRows ? 1 : kBlockRows;
    for (int y = 0; y < job.height; y += block_rows) {
        // The last block of rows overlaps the one before it.
        const auto top = static_cast<std::size_t>(y + block_rows <= job.height ? y : job.height - block_rows);
        block_rows == 1 ? blur_row<kVectors>(job, x, top) : blur_rows<kVectors>(job, x, top);
    }
}

// The same for 1..kMaxVectors vectors.
void blur_vectors(const BlurJob& job, int num_vectors, std::size_t x) noexcept {
    if (num_vectors == 1) return blur_columns<1>(job, x);
    if (num_vectors == 2) return blur_columns<2>(job, x);
    blur_columns<kMaxVectors>(job, x);
}

}  // namespace

void blur_avx2(const BlurJob& job) noexcept {
    const int num_vectors = (job.width + kLanes - 1) / kLanes;
    const int num_blocks = (num_vectors + kMaxVectors - 1) / kMaxVectors;
    // Blocks of about the same width: a narrow block has too few sums to keep the processor busy.
    for (int block = 0, done = 0; block < num_blocks; ++block) {
        const int end = num_vectors * (block + 1) / num_blocks;
        blur_vectors(job, end - done, static_cast<std::size_t>(done * kLanes));
        done = end;
    }
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
