#include <memory>
#include <random>
#include <utility>

#include "kernel_case.h"

namespace fastload::benchmarks {
namespace {

constexpr std::int32_t kSide = 128;
// A rotation by ten degrees around the middle.
constexpr double kMatrix[6] = {0.985, 0.174, -10.1, -0.174, 0.985, 12.1};

// A row in the middle of an image of random pixels, all of whose sources lie inside.
struct Row {
    Bytes pixels;
    Bytes row;
    AffineRun run;

    Row() : pixels(kSide * kSide), row(kSide) {
        std::mt19937 random(1);
        for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(random());
        const PlanarImageView image = {{pixels.data(), pixels.data(), pixels.data()}, kSide, kSide, kSide};
        run = {kMatrix, image, {row.data(), row.data(), row.data()}, 0, kSide / 2, kSide};
    }
};

}  // namespace

void add_affine_cases(KernelCases* cases) {
    for (const auto& [name, kernel] : {std::pair{"affine_bilinear", &KernelTable::affine_bilinear},
                                       std::pair{"affine_bicubic", &KernelTable::affine_bicubic}}) {
        const auto row = std::make_shared<Row>();
        cases->push_back({name, "pixel", kSide,
                          [row, kernel = kernel](const KernelTable& kernels) { (kernels.*kernel)(row->run); },
                          [row] { return row->row; }});
    }
}

}  // namespace fastload::benchmarks
