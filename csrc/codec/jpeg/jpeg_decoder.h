// Decodes regions of JPEG files into RGB column strips.
#pragma once

#include <cstddef>
#include <cstdint>

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
// baseline, extended sequential and complete progressive Huffman files of 8 bits with 1 or 3 components; for everything
// else it says kUnsupported, kIrregular or kLimitExceeded, and the sample goes to the reference decoder. Apart from
// these it returns only kOutOfMemory. Below the region it may stop without reading the entropy-coded data: the scan is
// known to end in a proper marker with all restart markers in sequence, and from there on libjpeg could only warn,
// which Pillow ignores.
//
// One thread at a time. Owns scratch memory.
class JpegDecoder {
  public:
    // `kernels` must outlive the decoder.
    JpegDecoder(const KernelTable& kernels, const DecodeLimits& limits);

    // Parses all segments up to and with the first SOS. `file` must stay alive and unchanged until the last decode() of
    // it returned. `info` is set only with kOk.
    Status read_header(ByteSpan file, ImageInfo* info) noexcept;

    // Whether read_header() turns down every file that begins with `head`, whatever comes behind it.
    bool rejects_head(ByteSpan head) const noexcept;

    // How OpenCV turns the image of the file that read_header() accepted last: jpeg::read_orientation.
    Status read_orientation(int* orientation) const noexcept;

    // Whether the installed Pillow decodes the file that read_header() accepted last, whatever the pixels are: see
    // Note [checked files] in file_check.h. *end_offset is then the place behind its EOI.
    Status check_file(std::size_t* end_offset) noexcept;

    // Decodes `region`, which must lie inside the image, of the file that read_header() accepted last. *rgb shows
    // exactly the region (its left and top inside of the strips are arbitrary) in the decoder's memory, valid
    // until the next call of a member function that is not const. May be called again for another region.
    Status decode(const Region& region, StripImageView* rgb) noexcept { return decode(region, nullptr, rgb); }

    // The same with an index of the file's scan_shape(): what it knows is not decoded again, and what is read behind
    // that is added where it is worth a new record. Pixels and status are those without it, but for the offset of a
    // fault. An index that turns out to be of other data is emptied and the region decoded without it.
    Status decode(const Region& region, jpeg::EntropyIndex* index, StripImageView* rgb) noexcept;

    // Decodes all of the file that read_header() accepted last, up to its EOI, and writes its coefficients: only
    // writer->finish() is left then. Not ok where decode() of the whole image is not, nor where a file has no record.
    Status read_coefficients(jpeg::CoefficientWriter* writer) noexcept;
    // As decode(), of the file that a record was made of, which need not be there: `reader` has read its rows for this
    // region. See jpeg::reconstruct_record.
    Status decode_record(const jpeg::RecordReader& reader, const Region& region, StripImageView* rgb) noexcept;

    // Whether files like the one that read_header() accepted last can have an index. With the shape of its scan, then.
    bool scan_shape(jpeg::ScanShape* shape) const noexcept;
    // Whether an index that knows all of such a file leaves a good part of the work for this region away.
    bool gains_from_index(const Region& region) const noexcept;
    // True where the last decode() found its index to be of other data.
    bool was_index_wrong() const noexcept { return !header_.frame.is_progressive && sequential_.was_index_wrong(); }

    std::size_t scratch_bytes() const noexcept;
    // What decode() has shown is gone then.
    void release_scratch(ScratchRule rule) noexcept;

    // True where the last decode() left rows below the region unread.
    bool stopped_early() const noexcept;

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
