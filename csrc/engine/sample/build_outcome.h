// What becomes of a file of which a record is made for its own sake.
#pragma once

#include <cstdint>

namespace fastload {

enum class BuildOutcome : std::uint8_t {
    kKept,       // it has a new record
    kKnown,      // its record says as much as a new one would, or all that it says is right
    kNotKept,    // there is no room
    kNone,       // files like it have no record, or it is damaged
    kTooNew,     // it was changed in the last minute, or nobody knows when
    kAbsent,     // it has no record
    kDifferent,  // its record says something else than the file
    kUnread      // it cannot be read
};

}  // namespace fastload
