#include <cstring>
#include <memory>
#include <random>

#include "kernel_case.h"

namespace fastload::benchmarks {
namespace {

constexpr std::size_t kBlocks = 32;

struct Blocks {
    alignas(64) std::int16_t coefficients[kBlocks][64] = {};
    alignas(64) std::int16_t decoded[kBlocks][64] = {};
    alignas(64) std::uint16_t quantization[64] = {};
    alignas(64) std::uint8_t samples[64 * kBlocks] = {};
};

}  // namespace

// Blocks as in a photograph of high quality: 16 small coefficients, most of them early in zigzag order. The kernel
// clears them, so the times contain a copy, about 1 ns a block.
void add_block_cases(KernelCases* cases) {
    const auto blocks = std::make_shared<Blocks>();
    std::mt19937 random(1);
    for (std::uint16_t& entry : blocks->quantization) entry = static_cast<std::uint16_t>(2 + random() % 20);
    for (auto& block : blocks->coefficients) {
        for (int i = 0; i < 16; ++i)
            block[random() % (random() % 64 + 1)] = static_cast<std::int16_t>(random() % 21) - 10;
    }
    cases->push_back({"inverse_dct", "block", kBlocks,
                      [blocks](const KernelTable& kernels) {
                          std::memcpy(blocks->decoded, blocks->coefficients, sizeof blocks->decoded);
                          for (std::size_t i = 0; i < kBlocks; ++i) {
                              kernels.inverse_dct(blocks->decoded[i], blocks->quantization, blocks->samples + 64 * i);
                          }
                      },
                      [blocks] { return Bytes(blocks->samples, blocks->samples + sizeof(blocks->samples)); }});
}

}  // namespace fastload::benchmarks
