#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernel_case.h"

namespace fastload::benchmarks {
namespace {

constexpr std::int32_t kSide = 64;

// A plane of random pixels and a square kernel of equal weights.
struct Plane {
    std::vector<float> padded;
    std::vector<float> weights;
    Bytes destination;
    BlurJob job;

    explicit Plane(std::int32_t kernel) : destination(kSide * kSide) {
        const auto side = static_cast<std::size_t>(kernel);
        job.padded_stride = kSide + side - 1;
        padded.resize(job.padded_stride * (kSide + side - 1));
        std::mt19937 random(1);
        for (float& pixel : padded) pixel = static_cast<float>(random() % 256);
        weights.assign(side * side, 1.0F / static_cast<float>(side * side));
        job.padded = padded.data();
        job.weights = weights.data();
        job.kernel_width = job.kernel_height = kernel;
        job.width = job.height = kSide;
        job.destination = destination.data();
        job.destination_stride_bytes = kSide;
    }
};

// Lines of random pixels and a pass with the radius of most blurs in training.
struct Lines {
    Bytes from;
    Bytes to;

    Lines() : from(kSide * kBoxBlurLines), to(from.size()) {
        std::mt19937 random(1);
        for (auto& pixel : from) pixel = static_cast<std::uint8_t>(random());
    }
};

}  // namespace

void add_blur_cases(KernelCases* cases) {
    const auto lines = std::make_shared<Lines>();
    cases->push_back({"box_blur, a pass", "pixel of a plane", kSide * kBoxBlurLines,
                      [lines](const KernelTable& kernels) {
                          const BoxWeights box = {1, 1U << 22, 1U << 21};
                          kernels.box_blur(box, lines->from.data(), kSide, lines->to.data());
                      },
                      [lines] { return lines->to; }});
    for (const std::int32_t kernel : {9, 23}) {
        const auto plane = std::make_shared<Plane>(kernel);
        const std::string size = std::to_string(kernel);
        cases->push_back({"blur, " + size + "x" + size, "output pixel", kSide * kSide,
                          [plane](const KernelTable& kernels) { kernels.blur(plane->job); },
                          [plane] { return plane->destination; }});
    }
}

}  // namespace fastload::benchmarks
