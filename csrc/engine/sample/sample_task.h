// One sample's work: what a thread needs to fill one place of a batch, and the per-thread object that does it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/image_view.h"
#include "base/status.h"
#include "engine/sample/sample_file.h"
#include "engine/sample/sample_timings.h"
#include "engine/sample/wire_area.h"
#include "image/plan/transform_plan.h"
#include "image/random/draw_source.h"
#include "io/sample_index.h"
#include "io/working_directory.h"

namespace fastload {

// One of the things made of each image; all samples of a view make up a batch of their own.
struct View {
    std::shared_ptr<const TransformPlan> plan;
    std::size_t sample_bytes = 0;  // what one sample takes in its batch
};

// The first steps of all views, whose result a record has; the views' own plans do the others.
struct FirstSteps {
    std::shared_ptr<const TransformPlan> plan;  // without draws, into rows of pixels
    StepsHash hash = {};
};

struct SampleReport;

// The common part of all samples of one iteration. Immutable; threads read it without locks.
struct SampleSource {
    std::shared_ptr<const SampleIndex> index;
    std::vector<View> views;  // at least one
    // Random choices: by torch's generator from this state on, one sample after the other in the order of the batches;
    // or, where there is none, by the counter: Note [counter layout].
    std::optional<TorchDraws> torch_draws;
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::shared_ptr<const WorkingDirectory> directory;  // of relative paths; null: the thread's current one
    std::shared_ptr<const FirstSteps> first_steps;      // null: none are kept, and the views begin with the image

    // True where resolve() draws.
    bool is_random() const noexcept;

    // Makes the choices of all views, in order, for an image of `source_size`: TransformPlan::resolve. The first one
    // that fails ends it.
    Status resolve(DrawSource* draws, ImageSize source_size, SampleReport* report) const noexcept;
};

// The steps of a sample: enough to repeat it with Pillow.
struct SampleReport {
    std::int64_t sample_index = 0;
    bool is_by_fallback = false;
    bool is_by_record = false;  // of coefficients or pixels, not by the file
    ImageSize source_size;
    ResolvedTransform first_steps;
    std::vector<ResolvedTransform> views;

    // Forgets the sample, with room for the steps of another one. May throw std::bad_alloc.
    void reset(const SampleSource& source);

    // The part of the image that the views, or their first steps, need together.
    Region source_region(const SampleSource& source) const noexcept;
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
    std::size_t position = 0;                         // in the batch
    std::uint8_t* const* images = nullptr;            // the batch of each view; others write to it as well
    const std::atomic<bool>* is_cancelled = nullptr;  // if any, a hint to leave early: the result is not used then
    SampleFile* file = nullptr;                       // where it is read to, or was; null where pixels are given
    SampleReport* report = nullptr;
    SampleChoices* choices = nullptr;
    // The batch on its way to a device that decodes; null: it is not. If it is, there is one view, whose plan writes
    // uint8 pixels in rows, red first, without a table.
    WireArea* wire = nullptr;

    // The place of `view` of this sample: its sample_bytes, written by this task alone.
    std::uint8_t* destination(std::size_t view) const noexcept {
        return wire != nullptr ? wire->take_pixels(position)
                               : images[view] + position * source->views[view].sample_bytes;
    }
};

// The pixels of which views are made: in the scratch memory of a worker or in a file's record, until the next ones are
// loaded.
struct LoadedPixels {
    StripImageView view;
    PlanarImageView rows;  // instead of the view, after the first steps
    Region region;         // of the image, as the file or the reference decoder has it, or as the first steps made it
    bool are_first_steps_done = false;
    bool is_on_wire = false;  // in scan form: nothing is left to be done here

    ImageSize size() const noexcept { return {region.width, region.height}; }
};

// The scratch and code of one thread. Not thread-safe; never throws, never takes the GIL.
class SampleWorker {
  public:
    virtual ~SampleWorker() = default;

    // Reads the file of the task, which must not have been read, or all of its record. May be called by another
    // thread's worker than run().
    virtual void read_ahead(const SampleTask& task, SampleTimings* timings) noexcept = 0;

    // Reads the file if that was not done yet, decodes, transforms and writes the sample. A status for which
    // is_for_fallback() holds means: not written, let the reference decoder provide the pixels and call
    // run_with_pixels. kWaitsForDraws: not written, comes again.
    virtual Status run(const SampleTask& task, SampleTimings* timings) noexcept = 0;

    // The same from pixels that somebody else decoded.
    virtual Status run_with_pixels(const SampleTask& task, const PackedImageView& rgb,
                                   SampleTimings* timings) noexcept = 0;

    virtual std::size_t scratch_bytes() const noexcept = 0;

    // Lets go of the scratch of large images, of which it keeps some for the next ones.
    virtual void release_large_scratch() noexcept = 0;
};

}  // namespace fastload
