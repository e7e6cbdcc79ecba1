// The sums of a block in Note [content hash]: base/content_hash.h.
#pragma once

#include <cstdint>

#include "base/content_hash.h"
#include "base/span.h"

namespace fastload {

BlockSums block_sums_avx2(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept;
BlockSums block_sums_avx512(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept;

}  // namespace fastload
