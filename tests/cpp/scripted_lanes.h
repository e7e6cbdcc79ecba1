// Workers without files, sources with torch's draws, and the batches of their lanes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "check.h"
#include "engine/draw_lane.h"
#include "engine/engine.h"
#include "image/plan/transform_plan.h"

namespace fastload::testing {

// A worker without memory of its own, for which a test writes run().
class ScriptedWorker : public SampleWorker {
  public:
    void read_ahead(const SampleTask&, SampleTimings*) noexcept override {}
    Status run_with_pixels(const SampleTask&, const PackedImageView&, SampleTimings*) noexcept override {
        return Status::ok();
    }
    std::size_t scratch_bytes() const noexcept override { return 0; }
    void release_large_scratch() noexcept override {}
};

// A source whose samples draw from torch's generator.
inline SampleSource drawing_source(const std::shared_ptr<const TransformPlan>& plan, std::uint64_t seed) {
    SampleSource source;
    source.views = {{plan, plan->sample_bytes()}};
    source.torch_draws = TorchDraws(Mt19937Stream(seed), {true, true});
    return source;
}

using PackedDraws = std::array<std::uint8_t, Mt19937Stream::kPackedBytes>;

inline PackedDraws packed(const TorchDraws& draws) {
    PackedDraws bytes{};
    draws.stream().pack(bytes.data());
    return bytes;
}

// The lane's next batch; null if it ends otherwise.
inline std::shared_ptr<BatchSlot> next_batch(DrawLane& lane) {
    PendingSample needs_python;
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const WaitResult result = lane.wait(std::chrono::milliseconds(50), &needs_python);
        if (result == WaitResult::kTimedOut) continue;
        std::shared_ptr<void> memory;
        return result == WaitResult::kReady ? lane.take_ready(&memory) : nullptr;
    }
    return nullptr;
}

}  // namespace fastload::testing
