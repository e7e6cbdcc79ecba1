#include <cmath>
#include <memory>
#include <random>

#include "kernel_case.h"
#include "kernels/idct.h"

namespace fastload::benchmarks {
namespace {

constexpr std::size_t kBlocks = 2048;  // too many for a processor to predict all their branches

struct PackedPicture {
    alignas(64) std::int16_t coefficients[kBlocks][64] = {};
    alignas(64) std::uint16_t quantization[64] = {};
    alignas(64) std::uint8_t samples[64 * kBlocks] = {};
    Bytes packed = Bytes(kBlocks * kMaxPackedBlockBytes + kPackedSlackBytes);
    Bytes packed_again = packed;
    std::size_t packed_bytes = 0;
    std::size_t end = 0;  // end of the last run
};

// Blocks as in a photograph of quality 85 to 92: the mean size of their coefficients differs much between blocks, and
// falls with the frequency. 4 of 100 have only the DC coefficient, a third have none after the first 16 positions, a
// third have one that is more than a nibble; on average 12 are not zero.
std::shared_ptr<PackedPicture> make_picture() {
    auto picture = std::make_shared<PackedPicture>();
    std::mt19937 random(1);
    const auto uniform = [&random] { return (static_cast<double>(random()) + 0.5) / 4294967296.0; };
    for (std::uint16_t& step : picture->quantization) step = static_cast<std::uint16_t>(2 + random() % 20);
    for (auto& block : picture->coefficients) {
        block[0] = static_cast<std::int16_t>(static_cast<int>(random() % 200) - 100);
        const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::acos(-1.0) * uniform());
        for (int k = 1; k < 64; ++k) {
            const int frequency = kNaturalOrder[k] / 8 + kNaturalOrder[k] % 8;
            const double laplace = std::log(uniform()) - std::log(uniform());
            block[k] =
                static_cast<std::int16_t>(std::lround(laplace * 3 * std::exp(normal) / std::pow(frequency, 1.5)));
        }
    }
    const std::uint8_t* const end = pack_blocks_scalar(picture->coefficients[0], kBlocks, picture->packed.data());
    picture->packed_bytes = static_cast<std::size_t>(end - picture->packed.data());
    return picture;
}

}  // namespace

void add_coefficient_cases(KernelCases* cases) {
    const auto picture = make_picture();
    cases->push_back({"pack_blocks", "block", kBlocks,
                      [picture](const KernelTable& kernels) {
                          std::uint8_t* const packed = picture->packed_again.data();
                          const std::uint8_t* const end =
                              kernels.pack_blocks(picture->coefficients[0], kBlocks, packed);
                          picture->end = static_cast<std::size_t>(end - packed);
                      },
                      [picture] {
                          const auto size = static_cast<std::ptrdiff_t>(picture->end);
                          return Bytes(picture->packed_again.begin(), picture->packed_again.begin() + size);
                      }});
    cases->push_back({"skip_blocks", "block", kBlocks,
                      [picture](const KernelTable& kernels) {
                          const std::uint8_t* const packed = picture->packed.data();
                          const std::uint8_t* const end =
                              kernels.skip_blocks(packed, packed + picture->packed_bytes, kBlocks);
                          picture->end = static_cast<std::size_t>(end - packed);
                      },
                      [picture] { return Bytes(1, picture->end == picture->packed_bytes ? 1 : 0); }});
    cases->push_back({"reconstruct_blocks", "block", kBlocks,
                      [picture](const KernelTable& kernels) {
                          const std::uint8_t* const packed = picture->packed.data();
                          kernels.reconstruct_blocks(packed, packed + picture->packed_bytes, kBlocks,
                                                     picture->quantization, picture->samples);
                      },
                      [picture] { return Bytes(picture->samples, picture->samples + sizeof(picture->samples)); }});
}

}  // namespace fastload::benchmarks
