// What whoever keeps a record wants to know of its file.
#pragma once

#include <array>
#include <cstdint>

namespace fastload {

// Under the record's check; what is in it is the keeper's affair.
using RecordStamp = std::array<std::uint8_t, 64>;

}  // namespace fastload
