// One sample's work: what a thread needs to fill one place of a batch, and the per-thread object that does it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/image_view.h"
#include "base/status.h"
#include "engine/stats.h"
#include "image/draw_source.h"
#include "image/transform_plan.h"
#include "io/sample_index.h"

namespace fastload {

// What all samples of one iteration share. Immutable; threads read it without locks.
struct SampleSource {
    std::shared_ptr<const SampleIndex> index;
    std::shared_ptr<const TransformPlan> plan;
    std::size_t sample_bytes = 0;  // what one sample takes in a batch
    // Random choices: by torch's generator from this state on, one sample after the other in the order of the batches;
    // or, where there is none, by the counter: Note [counter layout].
    std::optional<TorchDraws> torch_draws;
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
};

// What was done to a sample: enough to repeat it with Pillow.
struct SampleReport {
    std::int64_t sample_index = 0;
    bool is_by_fallback = false;
    ImageSize source_size;
    ResolvedTransform transform;
};

struct SampleTask;

// Makes a sample's random choices as soon as the size of its image is known.
class SampleChoices {
  public:
    virtual ~SampleChoices() = default;

    // Fills size and transform of the report. kWaitsForDraws: it is not this sample's turn. Then leave it alone, and do
    // not touch it any more: another thread may already have begun it anew.
    virtual Status resolve(const SampleTask& task, ImageSize source_size) noexcept = 0;
};

struct SampleTask {
    const SampleSource* source = nullptr;
    std::int64_t sample_index = 0;
    std::uint8_t* destination = nullptr;              // source->sample_bytes, written by this task alone
    const std::atomic<bool>* is_cancelled = nullptr;  // a hint to leave early; the result is not used then
    SampleReport* report = nullptr;
    SampleChoices* choices = nullptr;
};

// The scratch and code of one thread. Not thread-safe; never throws, never takes the GIL.
class SampleWorker {
  public:
    virtual ~SampleWorker() = default;

    // Reads, decodes, transforms and writes the sample. A status for which is_for_fallback() holds means: not written,
    // let the reference decoder provide the pixels and call run_with_pixels. kWaitsForDraws: not written, comes again.
    virtual Status run(const SampleTask& task, SampleTimings* timings) noexcept = 0;

    // The same from pixels that somebody else decoded.
    virtual Status run_with_pixels(const SampleTask& task, const PackedImageView& rgb,
                                   SampleTimings* timings) noexcept = 0;

    virtual std::size_t scratch_bytes() const noexcept = 0;
};

using SampleWorkerFactory = std::function<std::unique_ptr<SampleWorker>()>;

}  // namespace fastload
