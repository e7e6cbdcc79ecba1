#include "io/arena_index.h"

namespace fastload {

bool ArenaIndex::is_valid(ByteSpan arena, Span<const std::int64_t> offsets) noexcept {
    if (offsets.is_empty() || offsets[0] != 0) return false;
    for (std::size_t i = 1; i < offsets.size(); ++i) {
        if (offsets[i] < offsets[i - 1]) return false;
    }
    return static_cast<std::uint64_t>(offsets[offsets.size() - 1]) <= arena.size();
}

}  // namespace fastload
