// Decodes regions of JPEG files into RGB column strips.
#pragma once

#include <cstddef>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/coefficient_writer.h"
#include "codec/jpeg/decoding_tables.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/progressive_frame.h"
#include "codec/jpeg/reconstruct.h"
#include "codec/jpeg/record_reader.h"
#include "codec/jpeg/scan_data.h"
#include "codec/jpeg/sequential_frame.h"
#include "kernels/kernel_table.h"

namespace fastload {

// Note [strict decoder]
// kOk means: the installed Pillow decodes this file to exactly these pixels and raises nothing. The decoder takes clean
// baseline, extended sequential and complete progressive Huffman files of 8 bits with 1 or 3 components. For everything
// else it returns kUnsupported, kIrregular or kLimitExceeded, and the sample goes to the reference decoder. Apart from
// these it returns only kOutOfMemory. Below the region it may stop without reading the entropy-coded data: the scan is
// known to end in a proper marker with all restart markers in sequence, and from there on libjpeg could only warn,
// which Pillow ignores.
//
// One thread at a time. Owns scratch memory.
class JpegDecoder {
  public:
    // `kernels` must outlive the decoder.
    JpegDecoder(const KernelTable& kernels, const DecodeLimits& limits);

    // Parses all segments up to and including the first SOS. `file` must stay alive and unchanged until its last
    // decode() has returned. `info` is set only with kOk.
    Status read_header(ByteSpan file, ImageInfo* info) noexcept;

    // True if read_header() rejects every file that begins with `head`, whatever follows it.
    bool rejects_head(ByteSpan head) const noexcept;

    // The orientation that OpenCV applies to the file that read_header() accepted last: jpeg::read_orientation.
    Status read_orientation(int* orientation) const noexcept;

    // Checks whether the installed Pillow decodes the file that read_header() accepted last, whatever its pixels are:
    // see Note [checked files] in file_check.h. *end_offset receives the position after its EOI.
    Status check_file(std::size_t* end_offset) noexcept;

    // Decodes `region`, which must lie inside the image, of the file that read_header() accepted last. *rgb shows
    // exactly the region (its left and top inside of the strips are arbitrary) in the decoder's memory, valid
    // until the next call of a member function that is not const. May be called again for another region.
    Status decode(const Region& region, StripImageView* rgb) noexcept { return decode(region, nullptr, rgb); }

    // Does the same with an index of the file's scan_shape(): known parts are not decoded again, and checkpoints read
    // after them are added if that is worth a new record. Pixels and status are the same as without it, except for the
    // offset of a fault. If the index turns out to be of other data, it is emptied and the region is decoded without
    // it.
    Status decode(const Region& region, jpeg::EntropyIndex* index, StripImageView* rgb) noexcept;

    // Decodes all of the file that read_header() accepted last, up to its EOI, and writes its coefficients; the caller
    // then calls writer->finish(). Not ok if decode() of the whole image is not, or if such a file has no record.
    Status read_coefficients(jpeg::CoefficientWriter* writer) noexcept;
    // Like decode(), for the file of a record; the file itself need not exist. `record` has read the rows for this
    // region and lives until the view was used. kIrregular if blocks end after their block row.
    Status decode_record(const jpeg::RecordReader& record, const Region& region, StripImageView* rgb) noexcept;

    // True if files like the one that read_header() accepted last can have an index. Then sets the shape of its scan.
    bool scan_shape(jpeg::ScanShape* shape) const noexcept;
    // True if a complete index of such a file saves a good part of the work for this region.
    bool gains_from_index(const Region& region) const noexcept;
    // True if the last decode() found its index to be of other data.
    bool was_index_wrong() const noexcept { return !header_.frame.is_progressive && sequential_.was_index_wrong(); }

    // Reads, for a device, the scan of the file that read_header() accepted last: Note [scan form]. `index` is of its
    // scan_shape() and knows all rows of the region afterwards. The data are valid as long as a view of decode(). False
    // if the file has a fault in these rows, if the index is of other data, or without memory.
    bool read_scan(const Region& region, jpeg::EntropyIndex* index, jpeg::ScanData* data) noexcept;
    const jpeg::Header& header() const noexcept { return header_; }

    std::size_t scratch_bytes() const noexcept;
    // Invalidates the view that decode() returned.
    void release_scratch(ScratchRule rule) noexcept;

  private:
    const KernelTable& kernels_;
    DecodeLimits limits_;
    ByteSpan file_;
    jpeg::Header header_;
    jpeg::Reconstructor reconstructor_;
    jpeg::ScanReader scan_reader_;
    jpeg::DecodingTables decoding_tables_;
    jpeg::SequentialFrame sequential_;
    jpeg::ProgressiveFrame progressive_;
    bool is_ready_ = false;
};

}  // namespace fastload
