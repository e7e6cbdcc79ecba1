#include "kernels/block_sums.h"
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

#include <cstddef>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

constexpr std::size_t kStepBytes = 32;

// Adds to `sum` the products of the words with the key words from `key` on.
__m256i plus_products(__m256i sum, __m256i words, const std::uint64_t* key) {
    const __m256i factors = _mm256_add_epi32(words, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(key)));
    return _mm256_add_epi64(sum, _mm256_mul_epu32(factors, _mm256_srli_epi64(factors, 32)));
}

std::uint64_t sum_of(__m256i parts) {
    const __m128i halves = _mm_add_epi64(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(halves)) +
           static_cast<std::uint64_t>(_mm_extract_epi64(halves, 1));
}

template <int kSums>
BlockSums sums_of(const std::uint64_t* key, ByteSpan block, Chains chains) {
    __m256i sums[kSums] = {};
    std::size_t done = 0;
    for (; block.size() - done >= kStepBytes; done += kStepBytes, key += kStepBytes / sizeof *key) {
        const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block.data() + done));
        for (int i = 0; i < kSums; ++i) sums[i] = plus_products(sums[i], words, key + i);
    }
    BlockSums result = block_sums_scalar(key, block.subspan(done, block.size() - done), chains);
    for (int i = 0; i < kSums; ++i) result.sums[i] += sum_of(sums[i]);
    return result;
}

}  // namespace

BlockSums block_sums_avx2(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept {
    return chains == Chains::kBoth ? sums_of<4>(key, block, chains) : sums_of<2>(key, block, chains);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
