// Bytes as text.
#pragma once

#include <cstddef>

#include "base/span.h"

namespace fastload {

constexpr std::size_t base64_size(std::size_t num_bytes) noexcept { return (num_bytes + 2) / 3 * 4; }

// Writes `bytes` in base64 (RFC 4648, section 4, with padding) to `text`, which has room for base64_size() characters.
void encode_base64(ByteSpan bytes, char* text) noexcept;

}  // namespace fastload
