// The length of loops over random cases or over every n-th call. Under a sanitizer a round takes several times as long,
// so tests run a tenth of them there, unless FASTLOAD_ALL_ROUNDS is set: `make weekly` sets it.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace fastload::testing {

inline bool has_all_rounds() {
#ifdef FASTLOAD_SANITIZED
    return std::getenv("FASTLOAD_ALL_ROUNDS") != nullptr;
#else
    return true;
#endif
}

// The number of rounds of a loop that has `all`.
inline std::uint64_t rounds(std::uint64_t all) { return has_all_rounds() ? all : all / 10; }

// The distance between two calls that a test makes fail, where it is `step` with all rounds. It stays odd, so that
// calls that come in pairs do not always fail at the same one.
inline int stride(int step) { return has_all_rounds() ? step : 9 * step; }

}  // namespace fastload::testing
