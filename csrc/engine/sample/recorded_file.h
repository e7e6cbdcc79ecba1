// The record that stands for a sample's file, or is to be made of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/record_reader.h"
#include "engine/cache/file_record_cache.h"
#include "engine/cache/stored_record.h"
#include "image/plan/pixel_record.h"
#include "io/file_facts.h"
#include "io/working_directory.h"

namespace fastload {

// Belongs to whoever works on its sample just now.
class RecordedFile {
  public:
    // Begins with the file at `path` and what is done to its image before it is kept; `directory` lives as long as it
    // is worked on. False where no record can be looked for.
    bool begin(const FileRecordCache& cache, ByteSpan path, const WorkingDirectory* directory,
               const StepsHash& steps) noexcept;
    // The same of a file that somebody has opened and read.
    void begin_opened(const OpenedVersion& opened) noexcept;
    // Opens the record of this file with these facts, and contents where those are checked, if there is one. All of one
    // of pixels is read.
    bool find(const FileRecordCache& cache, const FileFacts& facts, ByteSpan contents, const DecodeLimits& limits,
              jpeg::ReadPart part = jpeg::ReadPart::kNeeded) noexcept;
    // The file was opened at `opened_ns` and had these facts.
    void note_read(const FileFacts& facts, std::int64_t opened_ns) noexcept;
    void forget() noexcept;
    // How long it took to find the record, for HitPace.
    void note_found_in(std::uint64_t nanoseconds) noexcept { found_in_ns_ = nanoseconds; }
    std::uint64_t found_in_ns() const noexcept { return found_in_ns_; }

    // Whether a record was found that has held so far.
    bool is_open() const noexcept { return is_open_; }
    // Of the image in the file.
    ImageSize size() const noexcept { return is_pixels_ ? pixels_.source_size() : reader_.record().frame().size; }
    // Of a record of pixels, which was read when it was found.
    const PlanarImageView& image() const noexcept { return pixels_.image(); }
    // Of a record of coefficients: reads what a region takes, unless all was read. Not ok: it is not open any more.
    Status read_rows(const FileRecordCache& cache, const Region& region) noexcept;
    // All of the record as it is in the store. False where it cannot be read, or without memory.
    bool read_all(std::vector<std::uint8_t>* record) noexcept;
    // The rows of the region that were read.
    const jpeg::RecordReader& reader() const noexcept { return reader_; }
    // Of a record that did not hold behind that.
    void give_up() noexcept;
    // What became of the look-up.
    FileRecordCache::Outcome outcome() const noexcept { return outcome_; }

    bool has_key() const noexcept { return has_key_; }
    // Whether a record of coefficients is to be made of the file, which was read.
    bool is_wanted(const FileRecordCache& cache) const noexcept;
    const FileVersion& version() const noexcept { return version_; }
    // Of the file that was read.
    OpenedVersion opened() const noexcept { return {version_, opened_ns_}; }
    std::int64_t opened_ns() const noexcept { return opened_ns_; }
    ByteSpan path() const noexcept { return {reinterpret_cast<const std::uint8_t*>(path_.data()), path_.size()}; }
    const WorkingDirectory* directory() const noexcept { return directory_; }

    // What it holds for its sample beyond a head.
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
    const RecordStamp& stamp() const noexcept { return is_pixels_ ? pixels_.stamp() : reader_.record().stamp(); }

    StoredRecord stored_;
    jpeg::RecordReader reader_;
    PixelRecordReader pixels_;
    FileVersion version_;
    std::int64_t opened_ns_ = 0;
    std::uint64_t found_in_ns_ = 0;
    std::string path_;
    const WorkingDirectory* directory_ = nullptr;
    FileRecordCache::Outcome outcome_ = FileRecordCache::Outcome::kMiss;
    bool has_key_ = false;
    bool is_open_ = false;
    bool is_pixels_ = false;  // what was found
};

}  // namespace fastload
