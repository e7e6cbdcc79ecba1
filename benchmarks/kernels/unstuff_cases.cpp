#include <memory>
#include <random>

#include "kernel_case.h"

namespace fastload::benchmarks {
namespace {

struct Unstuffing {
    Bytes source;
    Bytes clean;
    std::vector<std::uint32_t> restarts;
    std::size_t clean_size = 0;
};

// Random bytes with restart markers in between; one in 256 is FF and stuffed, as in a photograph.
std::shared_ptr<Unstuffing> make_scan(std::size_t size, std::size_t restart_distance) {
    auto scan = std::make_shared<Unstuffing>();
    std::mt19937 random(1);
    std::size_t next_restart = restart_distance;
    while (scan->source.size() < size) {
        const auto byte = static_cast<std::uint8_t>(random());
        scan->source.push_back(byte);
        if (byte == 0xFF) scan->source.push_back(0);
        if (restart_distance != 0 && scan->source.size() > next_restart) {
            scan->source.push_back(0xFF);
            scan->source.push_back(static_cast<std::uint8_t>(0xD0 + scan->restarts.size() % 8));
            scan->restarts.push_back(0);
            next_restart += restart_distance;
        }
    }
    scan->source.push_back(0xFF);
    scan->source.push_back(0xD9);
    scan->clean.resize(scan->source.size() + kUnstuffSlackBytes);
    return scan;
}

KernelCase unstuff_case(const char* name, std::size_t restart_distance) {
    const auto scan = make_scan(110000, restart_distance);
    return {name, "byte", static_cast<double>(scan->source.size()),
            [scan](const KernelTable& kernels) {
                const UnstuffedScan done =
                    kernels.unstuff({scan->source.data(), scan->source.size()}, scan->clean.data(),
                                    {scan->restarts.data(), scan->restarts.size()});
                scan->clean_size = done.clean_bytes;
            },
            [scan] {
                return Bytes(scan->clean.begin(), scan->clean.begin() + static_cast<std::ptrdiff_t>(scan->clean_size));
            }};
}

KernelCase find_marker_case() {
    const auto scan = make_scan(110000, 0);
    const auto place = std::make_shared<std::size_t>();
    return {"find_marker", "byte", static_cast<double>(scan->source.size()),
            [scan, place](const KernelTable& kernels) {
                *place = kernels.find_marker({scan->source.data(), scan->source.size()});
            },
            [place] {
                const auto* const bytes = reinterpret_cast<const std::uint8_t*>(place.get());
                return Bytes(bytes, bytes + sizeof *place);
            }};
}

}  // namespace

void add_unstuff_cases(KernelCases* cases) {
    cases->push_back(unstuff_case("unstuff", 0));
    cases->push_back(unstuff_case("unstuff, restart each 500 bytes", 500));
    cases->push_back(find_marker_case());
}

}  // namespace fastload::benchmarks
