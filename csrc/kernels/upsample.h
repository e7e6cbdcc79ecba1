// Upsampling of chroma by two, equal to libjpeg's "fancy" (triangle) filter. Works on column strips.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// Note [strip neighbours]
// The filters read the nearest sample on every side, so the neighbours of a strip are filled in: column -1 and column
// `columns` of each strip, and the strips above and below. At the ends of the image (not of the block), the caller has
// put a copy of the outermost column or row there; with equal neighbours the filters give libjpeg's edge values. Only
// row 7 of the strip above and row 0 of the strip below are used.
struct StripNeighbours {
    const std::uint8_t* above = nullptr;
    const std::uint8_t* current = nullptr;
    const std::uint8_t* below = nullptr;
};

// Twice as wide: out[2x] = (3 in[x] + in[x - 1] + 1) >> 2, out[2x + 1] = (3 in[x] + in[x + 1] + 2) >> 2.
// Writes exactly 2 * columns columns of 8 bytes.
using UpsampleH2v1Function = void(const std::uint8_t* strip, std::uint8_t* out, std::size_t columns) noexcept;

// Twice as high: out[2y] = (3 in[y] + in[y - 1] + 1) >> 2, out[2y + 1] = (3 in[y] + in[y + 1] + 2) >> 2.
// Writes exactly `columns` columns of each of the two output strips. Reads no neighbour columns.
using UpsampleH1v2Function = void(const StripNeighbours& strips, std::uint8_t* upper, std::uint8_t* lower,
                                  std::size_t columns) noexcept;

// Twice in both directions: column sums s = 3 in[y] + in[y -+ 1], then (3 s[x] + s[x - 1] + 8) >> 4 and
// (3 s[x] + s[x + 1] + 7) >> 4. Writes exactly 2 * columns columns of each of the two output strips.
using UpsampleH2v2Function = void(const StripNeighbours& strips, std::uint8_t* upper, std::uint8_t* lower,
                                  std::size_t columns) noexcept;

UpsampleH2v1Function upsample_h2v1_scalar, upsample_h2v1_avx2;
UpsampleH1v2Function upsample_h1v2_scalar, upsample_h1v2_avx2;
UpsampleH2v2Function upsample_h2v2_scalar, upsample_h2v2_avx2;

}  // namespace fastload
