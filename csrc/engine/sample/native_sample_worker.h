// The one way of a sample: read, header, random choices, decode, transform.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/aligned_buffer.h"
#include "codec/decoder.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/cache/decode_cache.h"
#include "engine/sample/indexed_decode.h"
#include "engine/sample/sample_task.h"
#include "image/plan/pixel_record.h"
#include "image/plan/transform_executor.h"
#include "io/sample_index.h"
#include "kernels/kernel_table.h"

namespace fastload {

struct NativeWorkerOptions {
    DecodeLimits decode_limits;
    std::uint64_t max_file_bytes = std::uint64_t{1} << 30;
    // False where the installed Pillow does not decode with libjpeg-turbo: then every file is left to Pillow.
    bool is_native_jpeg_allowed = true;
    std::shared_ptr<DecodeCache> cache;  // null: nothing is kept, and no record looked for
};

class NativeSampleWorker final : public SampleWorker {
  public:
    NativeSampleWorker(const KernelTable& kernels, const NativeWorkerOptions& options);

    void read_ahead(const SampleTask& task, SampleTimings* timings) noexcept override;
    Status run(const SampleTask& task, SampleTimings* timings) noexcept override;
    Status run_with_pixels(const SampleTask& task, const PackedImageView& rgb,
                           SampleTimings* timings) noexcept override;
    std::size_t scratch_bytes() const noexcept override;
    void release_large_scratch() noexcept override;

    // The steps of run() and run_with_pixels(), for a sample whose memory is made when its size is known. A record may
    // stand for the file: of the pixels after the first steps or, where there are none, of coefficients, of which just
    // the head is read unless all is asked for.
    void read_for(const FirstSteps* first_steps, ByteSpan path, const WorkingDirectory* directory, jpeg::ReadPart part,
                  SampleFile* file, SampleTimings* timings) const noexcept;
    // The same by the file alone.
    void read_contents(ByteSpan path, const WorkingDirectory* directory, SampleFile* file,
                       SampleTimings* timings) const noexcept;
    // Takes what somebody has read; from a file if `opened` is not null.
    void take_contents(ByteSpan contents, const FileVersion* opened, SampleFile* file,
                       SampleTimings* timings) const noexcept;
    // The cache of coefficients; null: there is none.
    FileRecordCache* coefficients() const noexcept { return coefficients_; }
    // See JpegDecoder::check_file.
    Status check(ByteSpan contents, ImageInfo* info, std::size_t* end_offset) noexcept;
    // For the file whose header decode() has read: JpegDecoder::read_orientation.
    Status read_orientation(int* orientation) const noexcept { return decoder_.read_orientation(orientation); }
    // Decodes a file that was read. The report has the choices.
    Status decode(const SampleTask& task, LoadedPixels* pixels, SampleTimings* timings) noexcept;
    Status load_packed(const SampleTask& task, const PackedImageView& rgb, LoadedPixels* pixels,
                       SampleTimings* timings) noexcept;
    // The record of the image that the first steps of the last decode() or load_packed() have made.
    ByteSpan finish_first_steps(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept {
        return first_steps_image_.finish(key, salt, stamp);
    }
    // Makes one view of what was loaded, in `destination`.
    Status write(const SampleTask& task, const LoadedPixels& pixels, std::size_t view, void* destination,
                 SampleTimings* timings) noexcept;
    // Call it after the last of these steps.
    void end_sample() noexcept;

  private:
    // Beyond it a thread keeps no scratch of large images for the next one: enough for photos of 12 megapixels.
    static constexpr std::size_t kMaxKeptScratchBytes = std::size_t{64} << 20;

    FileRecordCache* records_for(const FirstSteps* first_steps) const noexcept {
        return first_steps == nullptr ? coefficients_ : pixels_;
    }
    void read(const SampleTask& task, jpeg::ReadPart part, SampleTimings* timings) noexcept;
    bool open_record(FileRecordCache* records, const StepsHash& steps, ByteSpan path, const WorkingDirectory* directory,
                     jpeg::ReadPart part, RecordedFile* recorded, SampleTimings* timings) const noexcept;
    Status find_size(SampleFile* file, ImageSize* size, SampleTimings* timings) noexcept;
    Status decode_file(const SampleTask& task, LoadedPixels* pixels, SampleTimings* timings) noexcept;
    Status decode_contents(const SampleTask& task, bool is_for_device, LoadedPixels* pixels,
                           SampleTimings* timings) noexcept;
    bool write_scan(const SampleTask& task, const Region& needed, ScanHead* head, SampleTimings* timings) noexcept;
    Status decode_record(const SampleTask& task, ImageSize size, LoadedPixels* pixels, SampleTimings* timings) noexcept;
    bool take_record(const SampleTask& task, RecordedFile* recorded, LoadedPixels* pixels,
                     SampleTimings* timings) noexcept;
    bool pack(const LoadedPixels& pixels, AlignedBuffer* packed) const noexcept;
    Status check_record(const SampleTask& task, ImageSize size, const Region& region, LoadedPixels* pixels,
                        SampleTimings* timings) noexcept;
    Status read_file_of_record(SampleFile* file, ImageSize size, bool* has_other_size, SampleTimings* timings) noexcept;
    Status decode_instead_of_record(SampleFile* file, ImageSize size, LoadedPixels* pixels,
                                    SampleTimings* timings) noexcept;
    Status make_first_steps(const SampleTask& task, LoadedPixels* pixels, SampleTimings* timings) noexcept;
    void release_scratch(ScratchRule rule) noexcept;
    Status write_views(const SampleTask& task, const LoadedPixels& pixels, SampleTimings* timings) noexcept;

    const NativeWorkerOptions options_;
    FileRecordCache* const coefficients_;  // null: there are none
    FileRecordCache* const pixels_;        // likewise
    PathBuffer path_buffer_;
    JpegDecoder decoder_;
    IndexedDecode indexed_decode_;
    const KernelTable& kernels_;
    AlignedBuffer recorded_pixels_;  // of a spot check, like the next one
    AlignedBuffer file_pixels_;
    TransformExecutor executor_;
    PixelRecordWriter first_steps_image_;
};

}  // namespace fastload
