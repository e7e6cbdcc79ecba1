#include "kernels/target_region.h"
#include "kernels/unstuff_loop.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX512_FEATURES)

namespace fastload {
namespace {

struct CopyRun {
    std::size_t operator()(const std::uint8_t* from, const std::uint8_t* end, std::uint8_t* to) const noexcept {
        const auto size = static_cast<std::size_t>(end - from);
        const __m512i ff = _mm512_set1_epi8(-1);
        std::size_t run = 0;
        for (; run + 64 <= size; run += 64) {
            const __m512i bytes = _mm512_loadu_si512(from + run);
            _mm512_storeu_si512(to + run, bytes);
            const std::uint64_t found = _mm512_cmpeq_epi8_mask(bytes, ff);
            if (found != 0) return run + static_cast<std::size_t>(__builtin_ctzll(found));
        }
        const __mmask64 rest = (std::uint64_t{1} << (size - run)) - 1;
        const __m512i bytes = _mm512_maskz_loadu_epi8(rest, from + run);
        _mm512_mask_storeu_epi8(to + run, rest, bytes);
        const std::uint64_t found = _mm512_mask_cmpeq_epi8_mask(rest, bytes, ff);
        return found == 0 ? size : run + static_cast<std::size_t>(__builtin_ctzll(found));
    }
};

}  // namespace

UnstuffedScan unstuff_avx512(ByteSpan source, std::uint8_t* clean, Span<std::uint32_t> restart_offsets) noexcept {
    return unstuff_with(CopyRun{}, source, clean, restart_offsets);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
