#include <cstdlib>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "image/plan/normalization.h"
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

    Resizing(ImageSize to) : result(to.width, to.height) {
        if (!plan.prepare({500, 375}, to, Interpolation::kBilinear, ResizeOrder::kPillow13).is_ok()) std::abort();
    }

    void reserve_scratch(const KernelTable& kernels) {
        std::size_t size = 0;
        const bool has_room =
            kernels.resize_scratch_bytes({500, 375}, plan.job(), &size) && scratch.reserve(size).is_ok();
        if (!has_room) std::abort();
    }

    void resize(const KernelTable& kernels) {
        reserve_scratch(kernels);
        kernels.resize(source.view(), plan.job(), scratch.data(), result.view());
    }
};

void add_resize_case(KernelCases* cases, const char* name, ImageSize to) {
    const auto resizing = std::make_shared<Resizing>(to);
    cases->push_back({name, "output pixel", static_cast<double>(to.width * to.height),
                      [resizing](const KernelTable& kernels) { resizing->resize(kernels); },
                      [resizing, to] { return pixels_of(resizing->result, to.width, to.height); }});
}

// A resize and its last write to float32, as for ToTensor alone.
struct Conversion {
    Resizing resizing;
    std::vector<float> table;
    Normalizations formula;
    ConvertJob job;
    AlignedBuffer elements;  // aligned as batches are
    std::size_t size_bytes;

    explicit Conversion(ImageSize to)
        : resizing(to),
          size_bytes(3 * static_cast<std::size_t>(to.width) * static_cast<std::size_t>(to.height) * sizeof(float)) {
        if (!elements.reserve(size_bytes).is_ok()) std::abort();
        for (int i = 0; i < 768; ++i) table.push_back(static_cast<float>(i % 256) / 255.0F);
        const auto found = find_normalizations(table.data());
        if (!found.has_value()) std::abort();
        formula = *found;
        job.width = to.width;
        job.height = to.height;
        job.element_size_bytes = sizeof(float);
        job.table = table.data();
        job.normalizations = formula.channels;
    }

    void run(const KernelTable& kernels) {
        resizing.reserve_scratch(kernels);
        const bool is_done = kernels.resize_convert(resizing.source.view(), resizing.plan.job(),
                                                    resizing.scratch.data(), job, elements.data());
        if (is_done) return;
        resizing.resize(kernels);
        kernels.convert_rows(resizing.result.view(), job, elements.data());
    }

    Bytes bytes() const { return {elements.data(), elements.data() + size_bytes}; }
};

void add_conversion_case(KernelCases* cases, const char* name, ImageSize to) {
    const auto conversion = std::make_shared<Conversion>(to);
    cases->push_back({name, "output pixel", static_cast<double>(to.width * to.height),
                      [conversion](const KernelTable& kernels) { conversion->run(kernels); },
                      [conversion] { return conversion->bytes(); }});
}

}  // namespace

void add_resize_cases(KernelCases* cases) {
    add_resize_case(cases, "resize 500x375 to 224x224", {224, 224});
    add_resize_case(cases, "resize 500x375 to 341x256", {341, 256});
    add_conversion_case(cases, "resize_convert 500x375 to 224x224, float32", {224, 224});
}

}  // namespace fastload::benchmarks
