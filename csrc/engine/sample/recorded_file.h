// The record that stands for a sample's file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "codec/jpeg/record_reader.h"
#include "engine/cache/file_record_cache.h"
#include "engine/cache/stored_record.h"
#include "engine/sample/sample_timings.h"
#include "image/plan/pixel_record.h"
#include "io/file_facts.h"
#include "io/working_directory.h"

namespace fastload {

// Belongs to the thread that works on its sample just now.
class RecordedFile {
  public:
    // Begins with the file at `path` and what is done to its image before it is kept; `directory` lives as long as it
    // is worked on. False where no record can be looked for.
    bool begin(const FileRecordCache& cache, ByteSpan path, const WorkingDirectory* directory,
               const StepsHash& steps) noexcept;
    // Begins with a file that somebody has opened and read.
    void begin_opened(const FileVersion& opened) noexcept;
    // Opens the record of the file with this metadata, and these contents where contents are checked. A record of
    // pixels is read as a whole.
    bool find(const FileRecordCache& cache, const FileFacts& facts, ByteSpan contents, const DecodeLimits& limits,
              jpeg::ReadPart part = jpeg::ReadPart::kNeeded) noexcept;
    void forget() noexcept;

    // Whether a record was found that has held so far.
    bool is_open() const noexcept { return is_open_; }
    // The size of the image in the file.
    ImageSize size() const noexcept { return is_pixels_ ? pixels_.source_size() : reader_.frame().size; }
    // The pixels of a record of pixels.
    const PlanarImageView& image() const noexcept { return pixels_.image(); }
    // Decodes a region of a record of coefficients, and reads its rows, unless all were read. False: the record does
    // not hold, and is not open any more.
    bool decode(const FileRecordCache& cache, const Region& region, JpegDecoder* decoder, StripImageView* rgb,
                SampleTimings* timings) noexcept;
    // All of the record as it is in the store. False where it cannot be read, or without memory.
    bool read_all(std::vector<std::uint8_t>* record) noexcept;
    // Closes a record that turned out not to hold.
    void give_up() noexcept;
    // The outcome of the look-up.
    FileRecordCache::Outcome outcome() const noexcept { return outcome_; }

    bool has_key() const noexcept { return has_key_; }
    const FileVersion& version() const noexcept { return version_; }
    ByteSpan path() const noexcept { return {reinterpret_cast<const std::uint8_t*>(path_.data()), path_.size()}; }
    const WorkingDirectory* directory() const noexcept { return directory_; }

    // Bytes that it holds for its sample beyond a head.
    std::size_t waiting_bytes() const noexcept {
        if (!is_open_) return 0;
        return is_pixels_ ? stored_.size() : reader_.bytes_ahead();
    }
    std::size_t held_bytes() const noexcept { return reader_.scratch_bytes() + pixels_.scratch_bytes(); }
    void release_scratch(ScratchRule rule) noexcept {
        reader_.release_scratch(rule);
        pixels_.release_scratch(rule);
    }

  private:
    Status open_stored(const FileRecordCache& cache, const DecodeLimits& limits, jpeg::ReadPart part) noexcept;
    Status open_pixels(const FileRecordCache& cache, const DecodeLimits& limits) noexcept;
    const RecordStamp& stamp() const noexcept { return is_pixels_ ? pixels_.stamp() : reader_.stamp(); }

    StoredRecord stored_;
    jpeg::RecordReader reader_;
    PixelRecordReader pixels_;
    FileVersion version_;
    std::string path_;
    const WorkingDirectory* directory_ = nullptr;
    FileRecordCache::Outcome outcome_ = FileRecordCache::Outcome::kMiss;
    bool has_key_ = false;
    bool is_open_ = false;
    bool is_pixels_ = false;  // what was found
};

}  // namespace fastload
