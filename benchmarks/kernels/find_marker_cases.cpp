#include <memory>
#include <random>

#include "kernel_case.h"

namespace fastload::benchmarks {
namespace {

// Random bytes up to a marker; one in 256 is FF and stuffed, as in a photograph.
Bytes make_scan(std::size_t size) {
    Bytes scan;
    std::mt19937 random(1);
    while (scan.size() < size) {
        scan.push_back(static_cast<std::uint8_t>(random()));
        if (scan.back() == 0xFF) scan.push_back(0);
    }
    scan.push_back(0xFF);
    scan.push_back(0xD9);
    return scan;
}

}  // namespace

void add_find_marker_cases(KernelCases* cases) {
    const auto scan = std::make_shared<Bytes>(make_scan(110000));
    const auto place = std::make_shared<std::size_t>();
    cases->push_back(
        {"find_marker", "byte", static_cast<double>(scan->size()),
         [scan, place](const KernelTable& kernels) { *place = kernels.find_marker({scan->data(), scan->size()}); },
         [place] {
             const auto* const bytes = reinterpret_cast<const std::uint8_t*>(place.get());
             return Bytes(bytes, bytes + sizeof *place);
         }});
}

}  // namespace fastload::benchmarks
