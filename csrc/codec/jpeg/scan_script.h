// Which coefficients the scans of a file have brought, and how exactly.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// Note [complete files]
// libjpeg warns about a scan that refines what it has not seen, or repeats what it has, and goes on. And where any of
// a component's first coefficients is not known to its last bit when the file ends, it smooths the blocks' edges. Both
// are left to it: a file is taken when every coefficient of every component comes down to bit 0 step by step, none
// twice, and AC after DC. A sequential scan brings all of its components at once.
class ScanScript {
  public:
    // Takes in scan `number` of the file, from 0; kIrregular where it does not continue the ones before, kLimitExceeded
    // where there are too many.
    Status accept(const Scan& scan, int number, const DecodeLimits& limits) noexcept;

    // True when the first `component_count` components are known to the last bit.
    bool is_complete(int component_count) const noexcept;

  private:
    static constexpr std::int8_t kUnknown = -1;

    // The lowest known bit of each coefficient.
    struct Component {
        std::int8_t bits[64];
        Component() noexcept {
            for (std::int8_t& bit : bits) bit = kUnknown;
        }
    };
    Component components_[kMaxComponents];
};

}  // namespace fastload::jpeg
