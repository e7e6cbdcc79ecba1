// Pipelines that a device makes are described to it so that its pixels are the host's.
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "emulated_scan.h"
#include "image/plan/described_image.h"
#include "image/plan/transform_executor.h"
#include "image/plan/transform_plan.h"
#include "image/random/draw_source.h"
#include "image/steps/crop.h"
#include "image/steps/pad.h"
#include "image/steps/resize.h"
#include "image/steps/transpositions.h"
#include "kernels/dispatch.h"
#include "plan_steps.h"
#include "rounds.h"
#include "scan_maker.h"
#include "small_picture.h"

namespace fastload {
namespace {

using namespace testing;

constexpr ByteSpan kFile = {kSmallPicture, sizeof kSmallPicture};

PlacedStep padding(std::int32_t side, PaddingMode mode = PaddingMode::kConstant, RgbFill fill = {}) {
    Pad step;
    step.left = step.top = step.right = side;
    step.bottom = 2 * side;
    step.mode = mode;
    step.fill = fill;
    return placed(step);
}

PlacedStep shorter_side(std::int32_t size) {
    ResizeShorterSide step;
    step.size = size;
    return placed(step);
}

PlacedStep random_box(std::int32_t width, std::int32_t height, Interpolation interpolation) {
    auto step = sized<RandomResizedCrop>(width, height);
    step.interpolation = interpolation;
    return placed(step);
}

PlacedStep padded_crop(std::int32_t side) {
    auto step = sized<RandomCrop>(side, side);
    step.pad_if_needed = true;
    return placed(step);
}

// A pipeline with each draw anew, resolved for the small picture.
struct Sample {
    std::shared_ptr<TransformPlan> plan;
    ResolvedTransform resolved;

    Sample(Steps steps, ImageSize size, std::uint64_t seed) {
        OutputLayout layout;
        layout.channels_last = true;
        plan = make_plan(std::move(steps), layout);
        plan->reserve(&resolved);
        CounterDraws draws(seed, 0, 0);
        CHECK(plan->resolve(&draws, size, &resolved).is_ok());
    }
    bool describe(Region* needed, ScanHead* head) const {
        return describe_for_device(resolved, plan->resize_order(), needed, head);
    }
    std::vector<std::uint8_t> of_host(JpegDecoder& decoder) const {
        TransformExecutor executor(*select_kernel_table());
        StripImageView region;
        CHECK(decoder.decode(resolved.source_region, &region).is_ok());
        std::size_t bytes = 0;
        CHECK(plan->count_bytes(resolved.output_size, &bytes));
        std::vector<std::uint8_t> pixels(bytes);
        CHECK(executor.run(*plan, resolved, region, pixels.data()).is_ok());
        return pixels;
    }
};

const std::vector<std::function<Steps()>> kForDevices = {
    [] { return Steps{}; },
    [] { return Steps{random_box(30, 20, Interpolation::kBilinear), flip(0.5)}; },
    [] { return Steps{random_box(30, 20, Interpolation::kBicubic), flip(0.5)}; },
    [] { return Steps{shorter_side(40), placed(sized<CenterCrop>(32, 24))}; },
    [] { return Steps{shorter_side(40), placed(sized<CenterCrop>(70, 60))}; },
    [] { return Steps{shorter_side(40), placed(sized<RandomCrop>(30, 30)), flip(0.5), padding(3), flip(0.5)}; },
    [] { return Steps{placed(sized<CenterCrop>(50, 50)), placed(sized<Resize>(70, 9)), padded_crop(60)}; },
    [] { return Steps{placed(sized<RandomCrop>(20, 17)), flip(0.5), padding(2), placed(sized<CenterCrop>(15, 15))}; },
    [] { return Steps{placed(sized<Resize>(31, 45)), flip(1.0), placed(sized<RandomCrop>(11, 13)), flip(0.5)}; },
};

TEST_CASE(what_is_described_to_a_device_is_what_the_host_makes) {
    ScanMaker maker(kFile, jpeg::IndexLevel::kDense);
    for (std::size_t kind = 0; kind < kForDevices.size(); ++kind) {
        current_variant() = std::to_string(kind);
        for (std::uint64_t seed = 0; seed < rounds(40); ++seed) {
            const Sample sample(kForDevices[kind](), maker.size(), seed);
            Region needed;
            ScanHead head;
            CHECK(sample.describe(&needed, &head));
            CHECK(needed.lies_inside(maker.size().width, maker.size().height));
            const std::vector<std::uint8_t> wire = maker.make(needed, head);
            CHECK(!wire.empty());
            if (wire.empty()) continue;
            EmulatedScan device(ByteSpan(wire.data(), wire.size()));
            CHECK(device.run(64) == PieceFault::kNone);
            const std::vector<std::uint8_t> expected = sample.of_host(maker.decoder());
            CHECK(expected == std::vector<std::uint8_t>(device.pixels().begin(), device.pixels().end()));
        }
    }
}

TEST_CASE(what_a_device_cannot_make_is_for_the_host) {
    const ImageSize size = {134, 39};
    const auto is_for_device = [&](Steps steps) {
        Region needed;
        ScanHead head;
        return Sample(std::move(steps), size, 1).describe(&needed, &head);
    };
    CHECK(is_for_device({placed(sized<Resize>(30, 30))}));
    CHECK(!is_for_device({placed(sized<Resize>(30, 30)), placed(sized<Resize>(20, 20))}));
    CHECK(!is_for_device({flip(1.0), placed(sized<Resize>(30, 30))}));
    CHECK(!is_for_device({padding(4), placed(sized<Resize>(30, 30))}));
    CHECK(!is_for_device({padding(4, PaddingMode::kEdge)}));
    CHECK(!is_for_device({padding(4, PaddingMode::kConstant, RgbFill{1, 2, 3})}));
    for (const Interpolation interpolation :
         {Interpolation::kNearest, Interpolation::kHamming, Interpolation::kLanczos}) {
        auto step = sized<Resize>(30, 30);
        step.interpolation = interpolation;
        CHECK(!is_for_device({placed(step)}));
    }
    // Nothing of the image is left.
    CHECK(!is_for_device({padding(20), placed(sized<FixedCrop>(5, 5))}));
}

}  // namespace
}  // namespace fastload
