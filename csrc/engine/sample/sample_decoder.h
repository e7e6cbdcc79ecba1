// Single samples for code that goes on with them, in memory of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "engine/sample/native_sample_worker.h"
#include "engine/sample/sample_file.h"
#include "engine/sample/sample_task.h"
#include "engine/sample/sample_timings.h"
#include "image/plan/transform_plan.h"
#include "image/random/draw_source.h"
#include "kernels/kernel_table.h"

namespace fastload {

// The sample that a plan has made of one image: `size_bytes` bytes in the plan's layout.
struct DecodedSample {
    Span<std::uint8_t> place;               // of the caller's: where they are, if they fill it
    std::unique_ptr<std::uint8_t[]> bytes;  // else
    std::size_t size_bytes = 0;
    ImageSize size;

    bool is_placed() const noexcept { return bytes == nullptr; }
};

// The scratch and code of one thread, for plans of any kind. Not thread-safe; never throws, never takes the GIL.
class SampleDecoder {
  public:
    using Plan = std::shared_ptr<const TransformPlan>;
    using Steps = std::shared_ptr<const FirstSteps>;

    // May throw std::bad_alloc.
    SampleDecoder(const KernelTable& kernels, const NativeWorkerOptions& options);

    // One plan, or eight of one layout: the plan for each EXIF orientation, from 1 on, as OpenCV reads it. Files about
    // whose orientation there may be two opinions are then for the fallback, too.
    using Plans = Span<const Plan>;

    // Makes the sample of a file, or of its contents. A status for which is_for_fallback() holds means: let the
    // reference decoder provide the pixels and call run_with_pixels. Whatever the status, `draws` may have moved:
    // rewind them before another try. A relative path is one in `directory`; null: in the thread's current one.
    // `first_steps`: what is kept of the file, and the one plan goes on with; null: nothing is.
    Status run(ByteSpan path, Plans plans, DrawSource* draws, DecodedSample* sample,
               const WorkingDirectory* directory = nullptr, const Steps& first_steps = nullptr) noexcept;
    // `opened`: the file of the contents; null: none.
    Status run_with_contents(ByteSpan contents, Plans plans, DrawSource* draws, DecodedSample* sample,
                             const FileVersion* opened = nullptr) noexcept;

    // From pixels that somebody else decoded; with `first_steps`, of the file that run() was called with last.
    Status run_with_pixels(const PackedImageView& rgb, const Plan& plan, DrawSource* draws, DecodedSample* sample,
                           const Steps& first_steps = nullptr) noexcept;

    // The version of an open file that is read next, for run_with_contents(). False: it has no records.
    bool find_opened(int descriptor, ByteSpan path, FileVersion* opened) const noexcept;

    // Whether the reference decoder takes these contents, whatever its verdict on a part of them:
    // JpegDecoder::check_file.
    Status check(ByteSpan contents, ImageInfo* info, std::size_t* end_offset) noexcept {
        return worker_.check(contents, info, end_offset);
    }

    // See ResolvedTransform; of what was run last.
    bool keeps_info() const noexcept {
        return report_.views.front().keeps_info && (source_.first_steps == nullptr || report_.first_steps.keeps_info);
    }

    // Sums since the last call.
    SampleTimings take_timings() noexcept;

    std::size_t scratch_bytes() const noexcept { return file_.held_bytes() + worker_.scratch_bytes(); }

  private:
    template <typename Load>
    Status make(SampleChoices* choices, DecodedSample* sample, Load load) noexcept;
    template <typename Load>
    Status make_sample(SampleChoices* choices, DecodedSample* sample, Load load) noexcept;

    NativeSampleWorker worker_;
    SampleFile file_;
    SampleSource source_;  // with one view, of the plan at hand
    SampleReport report_;
    SampleTimings timings_;
};

}  // namespace fastload
