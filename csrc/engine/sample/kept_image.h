// The image behind the first steps of the views, made so that its pixels can be kept.
#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/record_stamp.h"
#include "base/status.h"
#include "engine/cache/file_record_cache.h"
#include "engine/sample/sample_task.h"
#include "image/plan/pixel_record.h"
#include "image/plan/transform_executor.h"

namespace fastload {

// The scratch of one thread. Not thread-safe.
class KeptImage {
  public:
    // Whether a record is wanted of an image of `size` that the first steps make of a file.
    static bool is_wanted(const OpenedVersion& opened, const FileRecordCache& cache, ImageSize size) noexcept {
        return cache.wants(opened.version, opened.opened_ns, pixel_record_bytes(size));
    }

    // Makes it of `pixels`, which show what the first steps of the task ask for.
    Status make(const SampleTask& task, const StripImageView& pixels, TransformExecutor* executor) noexcept;

    // Until the next make().
    const PlanarImageView& image() const noexcept { return writer_.image(); }

    // Keeps it as that of a file with the stamp that `make_stamp` gives, where a record of it is wanted and has room.
    template <typename MakeStamp>
    bool keep(const OpenedVersion& opened, FileRecordCache& cache, MakeStamp make_stamp) noexcept {
        return is_wanted(opened, cache, {image().width, image().height}) && put(opened.version, cache, make_stamp());
    }

    std::size_t scratch_bytes() const noexcept { return writer_.scratch_bytes(); }
    void release_scratch(ScratchRule rule) noexcept { writer_.release_scratch(rule); }

  private:
    bool put(const FileVersion& file, FileRecordCache& cache, const RecordStamp& stamp) noexcept;

    PixelRecordWriter writer_;
};

}  // namespace fastload
