#include <cstdlib>
#include <memory>

#include "base/aligned_buffer.h"
#include "image/resize/resize_plan.h"
#include "kernel_case.h"
#include "test_images.h"

namespace fastload::benchmarks {
namespace {

using testing::PlanarImage;
using testing::StripImage;

Bytes pixels_of(const PlanarImage& image, std::int32_t width, std::int32_t height) {
    Bytes pixels;
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < height; ++y) {
            for (std::int32_t x = 0; x < width; ++x) pixels.push_back(image.at(plane, x, y));
        }
    }
    return pixels;
}

struct Resizing {
    StripImage source{500, 375, 1};
    ResizePlan plan;
    AlignedBuffer scratch;
    PlanarImage result;

    Resizing(ImageSize to) : result(to.width, to.height) {}
};

void add_resize_case(KernelCases* cases, const char* name, ImageSize to) {
    const auto resizing = std::make_shared<Resizing>(to);
    const bool is_planned =
        resizing->plan.prepare({500, 375}, to, Interpolation::kBilinear, ResizeOrder::kPillow13).is_ok();
    if (!is_planned) std::abort();
    cases->push_back({name, "output pixel", static_cast<double>(to.width * to.height),
                      [resizing](const KernelTable& kernels) {
                          const ResizeJob& job = resizing->plan.job();
                          std::size_t size = 0;
                          const bool has_room = kernels.resize_scratch_bytes({500, 375}, job, &size) &&
                                                resizing->scratch.reserve(size).is_ok();
                          if (!has_room) std::abort();
                          kernels.resize(resizing->source.view(), job, resizing->scratch.data(),
                                         resizing->result.view());
                      },
                      [resizing, to] { return pixels_of(resizing->result, to.width, to.height); }});
}

}  // namespace

void add_resize_cases(KernelCases* cases) {
    add_resize_case(cases, "resize 500x375 to 224x224", {224, 224});
    add_resize_case(cases, "resize 500x375 to 341x256", {341, 256});
}

}  // namespace fastload::benchmarks
