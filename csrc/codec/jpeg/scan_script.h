// Tracks which coefficients the scans of a file have brought, and to which bit.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// Note [complete files]
// libjpeg warns about a scan that refines unseen coefficients or repeats known ones, and goes on. If any of a
// component's first coefficients is not known to its last bit when the file ends, libjpeg smooths the blocks' edges.
// Both kinds of files are left to it: a file is accepted if every coefficient of every component comes down to bit 0
// step by step, none twice, and AC after DC. A sequential scan brings all coefficients of its components at once.
class ScanScript {
  public:
    // Adds scan `number` of the file, from 0. kIrregular if it does not continue the ones before, kLimitExceeded if
    // there are too many.
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
