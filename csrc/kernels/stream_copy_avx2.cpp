#include "kernels/stream_copy.h"
#include "kernels/target_region.h"

#if FASTLOAD_HAS_X86_KERNELS

#include <immintrin.h>

FASTLOAD_BEGIN_TARGET(FASTLOAD_AVX2_FEATURES)

namespace fastload {
namespace {

constexpr std::size_t kVectorBytes = 32;
constexpr std::size_t kStep = 4 * kVectorBytes;

__m256i load(const std::uint8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }

// `to` is aligned to 32 bytes.
void stream(std::uint8_t* to, __m256i bytes) { _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bytes); }

}  // namespace

void stream_copy_avx2(std::uint8_t* to, const std::uint8_t* from, std::size_t size) noexcept {
    std::size_t at = (kVectorBytes - reinterpret_cast<std::uintptr_t>(to) % kVectorBytes) % kVectorBytes;
    if (size < at + kStep) return stream_copy_scalar(to, from, size);
    stream_copy_scalar(to, from, at);
    for (; size - at >= kStep; at += kStep) {
        const __m256i first = load(from + at);
        const __m256i second = load(from + at + kVectorBytes);
        const __m256i third = load(from + at + 2 * kVectorBytes);
        const __m256i fourth = load(from + at + 3 * kVectorBytes);
        stream(to + at, first);
        stream(to + at + kVectorBytes, second);
        stream(to + at + 2 * kVectorBytes, third);
        stream(to + at + 3 * kVectorBytes, fourth);
    }
    _mm_sfence();  // a later store, as the release of a lock, may overtake streamed ones
    stream_copy_scalar(to + at, from + at, size - at);
}

}  // namespace fastload

FASTLOAD_END_TARGET

#endif
