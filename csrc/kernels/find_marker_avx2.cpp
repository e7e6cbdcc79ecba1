#include "kernels/target_region.h"
#include "kernels/unstuff.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

__m256i load(const std::uint8_t* bytes) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)); }

// FF for each of 32 bytes that is FF and not followed by 00.
__m256i markers_in(const std::uint8_t* bytes) {
    const __m256i is_ff = _mm256_cmpeq_epi8(load(bytes), _mm256_set1_epi8(-1));
    const __m256i is_stuffed = _mm256_cmpeq_epi8(load(bytes + 1), _mm256_setzero_si256());
    return _mm256_andnot_si256(is_stuffed, is_ff);
}

}  // namespace

std::size_t find_marker_avx2(ByteSpan bytes) noexcept {
    constexpr std::size_t kStep = 64;
    std::size_t place = 0;
    for (; bytes.size() - place > kStep; place += kStep) {
        const __m256i low = markers_in(bytes.data() + place);
        const __m256i high = markers_in(bytes.data() + place + kStep / 2);
        const __m256i either = _mm256_or_si256(low, high);
        if (_mm256_testz_si256(either, either) != 0) continue;
        const std::uint64_t in_low = static_cast<std::uint32_t>(_mm256_movemask_epi8(low));
        const std::uint64_t in_high = static_cast<std::uint32_t>(_mm256_movemask_epi8(high));
        return place + static_cast<std::size_t>(__builtin_ctzll(in_low | in_high << 32));
    }
    return place + find_marker_scalar(bytes.subspan(place, bytes.size() - place));
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
