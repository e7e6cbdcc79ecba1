#include "codec/jpeg/scan_script.h"

#include <memory>
#include <vector>

#include "check.h"

namespace fastload::jpeg {
namespace {

Scan scan_of(std::vector<int> components, int start, int end, int high, int low) {
    Scan scan;
    for (const int component : components) scan.components[scan.component_count++].component = component;
    scan.spectral_start = start;
    scan.spectral_end = end;
    scan.approximation_high = high;
    scan.approximation_low = low;
    return scan;
}

}  // namespace

TEST_CASE(scan_script_is_complete_when_every_coefficient_came_down_to_bit_0) {
    ScanScript script;
    const Scan scans[] = {scan_of({0, 1}, 0, 0, 0, 1), scan_of({0}, 1, 5, 0, 2), scan_of({1}, 1, 63, 0, 0),
                          scan_of({0}, 6, 63, 0, 1),   scan_of({0}, 1, 5, 2, 1), scan_of({0, 1}, 0, 0, 1, 0),
                          scan_of({0}, 1, 63, 1, 0)};
    for (const Scan& scan : scans) {
        CHECK(!script.is_complete(1));
        CHECK(script.accept(scan, 0, DecodeLimits{}).is_ok());
    }
    CHECK(script.is_complete(1));
    CHECK(script.is_complete(2));
    CHECK(!script.is_complete(3));
}

TEST_CASE(scan_script_wants_each_step_once_and_in_order) {
    const auto is_accepted = [](const std::vector<Scan>& scans) {
        ScanScript script;
        for (const Scan& scan : scans) {
            if (!script.accept(scan, 0, DecodeLimits{}).is_ok()) return false;
        }
        return true;
    };
    const Scan dc = scan_of({0}, 0, 0, 0, 1);
    const Scan dc_refined = scan_of({0}, 0, 0, 1, 0);
    const Scan low = scan_of({0}, 1, 5, 0, 2);
    CHECK(is_accepted({dc, dc_refined, low}));
    CHECK(!is_accepted({dc_refined}));
    CHECK(!is_accepted({dc, dc}));
    CHECK(!is_accepted({dc, dc_refined, dc_refined}));
    CHECK(!is_accepted({low}));
    CHECK(!is_accepted({dc, low, low}));
    CHECK(!is_accepted({dc, low, scan_of({0}, 5, 9, 0, 2)}));
    CHECK(!is_accepted({dc, low, scan_of({0}, 1, 5, 1, 0)}));
    CHECK(!is_accepted({dc, low, scan_of({0}, 1, 6, 2, 1)}));
    CHECK(is_accepted({dc, low, scan_of({0}, 2, 4, 2, 1)}));
    CHECK(!is_accepted({dc, scan_of({1}, 1, 5, 0, 2)}));
}

}  // namespace fastload::jpeg
