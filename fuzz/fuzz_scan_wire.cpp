// Samples in scan form: heads of any bytes, and the real ones of a file with any tables, places and data. Whatever is
// accepted, the kernels stay inside of the sample's memory and end.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "emulated_scan.h"
#include "fuzz_input.h"
#include "scan_maker.h"
#include "small_picture.h"
#include "test_images.h"

namespace fastload {
namespace {

using fuzzing::Input;

// A larger sample takes longer than it is worth.
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

const testing::ScanMaker& maker() {
    static const testing::ScanMaker made({testing::kSmallPicture, sizeof testing::kSmallPicture},
                                         jpeg::IndexLevel::kDense);
    return made;
}

std::vector<std::uint8_t> any_wire(Input* input) {
    testing::WantedSample wanted(testing::any_region(maker().size(), [&] { return input->raw<std::uint16_t>(); }),
                                 {1 + input->choose(60), 1 + input->choose(60)});
    constexpr Interpolation kFilters[] = {Interpolation::kBox, Interpolation::kBilinear, Interpolation::kBicubic};
    wanted.interpolation = kFilters[input->choose(3)];
    return maker().make(wanted);
}

void run(const std::vector<std::uint8_t>& wire) {
    ScanHead head;
    std::memcpy(&head, wire.data(), sizeof head);
    if (!is_valid_scan(head, wire.size())) return;
    if (ScanScratch(head).end + num_scan_pixel_bytes(head) > kMaxBytes) return;
    testing::EmulatedScan({wire.data(), wire.size()}).run(3);
}

}  // namespace
}  // namespace fastload

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace fastload;
    Input input({data, size});
    std::vector<std::uint8_t> wire = any_wire(&input);
    fuzzing::require(!wire.empty());
    fuzzing::change_bytes(&input, &wire);
    run(wire);
    return 0;
}
