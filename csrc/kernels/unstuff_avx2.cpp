#include "kernels/target_region.h"
#include "kernels/unstuff_loop.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

struct CopyRun {
    std::size_t operator()(const std::uint8_t* from, const std::uint8_t* end, std::uint8_t* to) const noexcept {
        const auto size = static_cast<std::size_t>(end - from);
        const __m256i ff = _mm256_set1_epi8(-1);
        std::size_t run = 0;
        for (; run + 32 <= size; run += 32) {
            const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + run));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + run), bytes);
            const auto found = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, ff)));
            if (found != 0) return run + static_cast<std::size_t>(__builtin_ctz(found));
        }
        for (; run < size && from[run] != 0xFF; ++run) to[run] = from[run];
        return run;
    }
};

}  // namespace

UnstuffedScan unstuff_avx2(ByteSpan source, std::uint8_t* clean, Span<std::uint32_t> restart_offsets) noexcept {
    return unstuff_with(CopyRun{}, source, clean, restart_offsets);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
