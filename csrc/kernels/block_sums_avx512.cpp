#include "kernels/block_sums.h"
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstddef>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX512_FEATURES)

namespace fastload {
namespace {

constexpr std::size_t kStepBytes = 64;

// Adds to `sum` the products of the words with the key words from `key` on.
__m512i plus_products(__m512i sum, __m512i words, const std::uint64_t* key) {
    const __m512i factors = _mm512_add_epi32(words, _mm512_loadu_si512(key));
    return _mm512_add_epi64(sum, _mm512_mul_epu32(factors, _mm512_srli_epi64(factors, 32)));
}

std::uint64_t sum_of(__m512i parts) {
    const __m256i halves = _mm256_add_epi64(_mm512_castsi512_si256(parts), _mm512_extracti64x4_epi64(parts, 1));
    const __m128i quarters = _mm_add_epi64(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(quarters)) +
           static_cast<std::uint64_t>(_mm_extract_epi64(quarters, 1));
}

template <int kSums>
BlockSums sums_of(const std::uint64_t* key, ByteSpan block, Chains chains) {
    __m512i sums[kSums] = {};
    std::size_t done = 0;
    for (; block.size() - done >= kStepBytes; done += kStepBytes, key += kStepBytes / sizeof *key) {
        const __m512i words = _mm512_loadu_si512(block.data() + done);
        for (int i = 0; i < kSums; ++i) sums[i] = plus_products(sums[i], words, key + i);
    }
    BlockSums result = block_sums_scalar(key, block.subspan(done, block.size() - done), chains);
    for (int i = 0; i < kSums; ++i) result.sums[i] += sum_of(sums[i]);
    return result;
}

}  // namespace

BlockSums block_sums_avx512(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept {
    return chains == Chains::kBoth ? sums_of<4>(key, block, chains) : sums_of<2>(key, block, chains);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
