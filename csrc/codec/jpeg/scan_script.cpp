#include "codec/jpeg/scan_script.h"

namespace fastload::jpeg {

Status ScanScript::accept(const Scan& scan, int number, const DecodeLimits& limits) noexcept {
    if (number == limits.max_scans) {
        return {StatusCode::kLimitExceeded, 0, scan.data_offset, "more scans than the limit"};
    }
    const int expected = scan.is_refinement() ? scan.approximation_high : kUnknown;
    for (int i = 0; i < scan.component_count; ++i) {
        Component& component = components_[scan.components[i].component];
        if (!scan.is_dc() && component.bits[0] == kUnknown) {
            return Status::irregular("an AC scan before the DC scan", scan.data_offset);
        }
        for (int k = scan.spectral_start; k <= scan.spectral_end; ++k) {
            if (component.bits[k] != expected) {
                return Status::irregular("a scan that does not continue those before", scan.data_offset);
            }
            component.bits[k] = static_cast<std::int8_t>(scan.approximation_low);
        }
    }
    return Status::ok();
}

bool ScanScript::is_complete(int component_count) const noexcept {
    for (int i = 0; i < component_count; ++i) {
        for (const std::int8_t bit : components_[i].bits) {
            if (bit != 0) return false;
        }
    }
    return true;
}

}  // namespace fastload::jpeg
