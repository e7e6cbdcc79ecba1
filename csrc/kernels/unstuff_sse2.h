// The inner loop of unstuff() on x86-64, which always has SSE2.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace fastload {

// Copies the bytes before the first FF, or all, and returns their number. May write as many bytes as there are.
inline std::size_t copy_run(ByteSpan from, std::uint8_t* to) noexcept {
    std::size_t run = 0;
    for (; run + 16 <= from.size(); run += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + run));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + run), bytes);
        const int found = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(-1)));
        if (found != 0) return run + static_cast<std::size_t>(__builtin_ctz(static_cast<unsigned>(found)));
    }
    for (; run < from.size() && from[run] != 0xFF; ++run) to[run] = from[run];
    return run;
}

}  // namespace fastload
