// Metadata of a file that the keeper of a record stores with it.
#pragma once

#include <array>
#include <cstdint>

namespace fastload {

// Covered by the record's check. The contents are the keeper's own business.
using RecordStamp = std::array<std::uint8_t, 64>;

}  // namespace fastload
