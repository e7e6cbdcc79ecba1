// The image after the first steps of the views.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/content_hash.h"
#include "base/image_view.h"
#include "base/record_stamp.h"
#include "base/span.h"
#include "base/status.h"
#include "engine/sample/sample_task.h"
#include "image/plan/pixel_record.h"
#include "image/plan/transform_executor.h"

namespace fastload {

// The scratch of one thread. Not thread-safe.
class FirstStepsImage {
  public:
    // Makes it of `pixels`, which show what the first steps of the task ask for.
    Status make(const SampleTask& task, const StripImageView& pixels, TransformExecutor* executor) noexcept;

    // It stays until the next make(), and so does its record: PixelRecordWriter::finish.
    const PlanarImageView& image() const noexcept { return writer_.image(); }
    ByteSpan finish(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept {
        return writer_.finish(key, salt, stamp);
    }

    std::size_t scratch_bytes() const noexcept { return writer_.scratch_bytes(); }
    void release_scratch(ScratchRule rule) noexcept { writer_.release_scratch(rule); }

  private:
    PixelRecordWriter writer_;
};

}  // namespace fastload
