#include <cstring>
#include <memory>
#include <random>

#include "kernel_case.h"

namespace fastload::benchmarks {
namespace {

// Chroma of a 4:2:0 image 500 pixels wide, and the luma of one strip.
constexpr std::size_t kColumns = 250;
constexpr std::size_t kStripBytes = 8 * kColumns;
static_assert(2 * kStripBytes <= 4096, "an upsampled strip fits");

struct Strips {
    alignas(64) std::uint8_t in[3][4096] = {};  // the strips begin at byte 64, after a neighbour column
    alignas(64) std::uint8_t out[3][4096] = {};

    Strips() {
        std::mt19937 random(1);
        for (auto& strip : in) {
            for (std::uint8_t& sample : strip) sample = static_cast<std::uint8_t>(random());
        }
    }
    StripNeighbours neighbours() const { return {in[0] + 64, in[1] + 64, in[2] + 64}; }
    Bytes result() const { return Bytes(out[0], out[0] + sizeof out); }
};

void add_case(KernelCases* cases, const char* name, const char* unit, std::size_t units,
              void (*run)(Strips&, const KernelTable&)) {
    const auto strips = std::make_shared<Strips>();
    cases->push_back({name, unit, static_cast<double>(units),
                      [strips, run](const KernelTable& kernels) { run(*strips, kernels); },
                      [strips] { return strips->result(); },
                      [strips] { std::memcpy(strips->out, strips->in, sizeof strips->out); }});
}

}  // namespace

void add_strip_cases(KernelCases* cases) {
    add_case(cases, "upsample_h2v1", "output sample", 2 * kStripBytes, [](Strips& strips, const KernelTable& kernels) {
        kernels.upsample_h2v1(strips.in[0] + 64, strips.out[0], kColumns);
    });
    add_case(cases, "upsample_h1v2", "output sample", 2 * kStripBytes, [](Strips& strips, const KernelTable& kernels) {
        kernels.upsample_h1v2(strips.neighbours(), strips.out[0], strips.out[1], kColumns);
    });
    add_case(cases, "upsample_h2v2", "output sample", 4 * kStripBytes, [](Strips& strips, const KernelTable& kernels) {
        kernels.upsample_h2v2(strips.neighbours(), strips.out[0], strips.out[1], kColumns);
    });
    add_case(cases, "ycc_to_rgb", "pixel", kStripBytes, [](Strips& strips, const KernelTable& kernels) {
        kernels.ycc_to_rgb(strips.out[0], strips.out[1], strips.out[2], kStripBytes);
    });
}

}  // namespace fastload::benchmarks
