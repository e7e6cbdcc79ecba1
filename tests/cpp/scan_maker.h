// Makes samples in scan form from files, as the host will.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/image_view.h"
#include "base/span.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "codec/jpeg/scan_form.h"
#include "codec/jpeg/scan_grid.h"
#include "image/resize/resize_plan.h"
#include "kernels/dispatch.h"

namespace fastload::testing {

// The part `crop` of an image is resized to `to`, of which `kept` is the sample. That lies in a larger result, mirrored
// or not.
struct WantedSample {
    Region crop;
    ImageSize to;
    Region kept;
    Interpolation interpolation = Interpolation::kBilinear;
    ResizeOrder order = ResizeOrder::kPillow13;
    bool is_mirrored = false;
    ScanPlacement placement;
    FloatBox box;  // of the crop

    // All of the crop's result, alone.
    WantedSample(const Region& part, ImageSize size)
        : crop(part),
          to(size),
          kept{0, 0, size.width, size.height},
          placement{size.width, size.height, 0, 0},
          box{0.0F, 0.0F, static_cast<float>(part.width), static_cast<float>(part.height)} {}
    ResizeShape shape() const { return {{crop.width, crop.height}, box, to}; }
    bool stays() const {
        return to.width == crop.width && to.height == crop.height && shape().has_whole_width() &&
               shape().has_whole_height();
    }
    // The pixels of the image that are resized.
    Region region() const {
        Region source = resize_source(shape(), kept, interpolation);
        source.left += crop.left;
        source.top += crop.top;
        return source;
    }
};

class ScanMaker {
  public:
    // `file` lives as long as this. Its index knows the rows that the first `known` rows of pixels need.
    ScanMaker(ByteSpan file, jpeg::IndexLevel level, std::int32_t known = INT32_MAX)
        : decoder_(*select_kernel_table(), DecodeLimits{}) {
        ImageInfo info;
        jpeg::ScanShape shape;
        StripImageView whole;
        std::size_t end_offset = 0;
        if (!decoder_.read_header(file, &info).is_ok() || !decoder_.scan_shape(&shape)) return;
        if (!index_.begin(shape, level).is_ok()) return;
        size_ = info.size;
        if (!decoder_.decode({0, 0, size_.width, std::min(known, size_.height)}, &index_, &whole).is_ok()) return;
        if (!jpeg::read_header_segments(file, DecodeLimits{}, &header_).is_ok()) return;
        const jpeg::ScanGrid grid(header_.frame, header_.first_scan, jpeg::McuWindow{});
        is_indexed_ =
            reader_.read(file, header_.first_scan.data_offset, grid.mcu_count(), 0, &data_, &end_offset).is_ok();
    }

    // Makes a prediction of one checkpoint wrong.
    void spoil(std::size_t checkpoint) {
        jpeg::EntropyIndex wrong;
        if (!wrong.begin(index_.shape(), index_.level()).is_ok() || !wrong.accepts(index_.data_bytes())) return;
        for (std::size_t i = 0; i < index_.size(); ++i) {
            jpeg::Checkpoint copy = index_[i];
            if (i == checkpoint) copy.predictions[0] = static_cast<std::int16_t>(copy.predictions[0] + 24);
            wrong.append(copy);
        }
        index_ = std::move(wrong);
    }
    std::size_t num_checkpoints() const { return index_.size(); }

    // False for a file without an index.
    bool is_indexed() const { return is_indexed_; }
    ImageSize size() const { return size_; }
    JpegDecoder& decoder() { return decoder_; }
    const jpeg::Header& header() const { return header_; }
    std::uint32_t rows_known() const { return index_.rows_known(); }

    // Empty if there is no scan form of it.
    std::vector<std::uint8_t> make(const WantedSample& wanted) const {
        ScanHead head;
        if (!describe_resize(wanted.shape(), wanted.kept, wanted.interpolation, wanted.order, &head)) return {};
        head.is_mirrored = wanted.is_mirrored ? 1 : 0;
        head.placement = wanted.placement;
        return make(wanted.region(), head);
    }

    // The same where the head says what becomes of the region.
    std::vector<std::uint8_t> make(const Region& region, ScanHead head) const {
        const jpeg::IndexedScan scan = {header_, data_, index_};
        const jpeg::ScanGrid grid(header_.frame, header_.first_scan, jpeg::decode_window(header_.frame, region));
        if (index_.rows_known() < static_cast<std::uint32_t>(grid.window.bottom)) return {};
        jpeg::describe_scan(scan, region, &head);
        if (!is_valid_scan(head, head.bytes)) return {};
        std::vector<std::uint8_t> wire(head.bytes);
        jpeg::write_scan(scan, head, {wire.data(), wire.size()});
        return wire;
    }

  private:
    JpegDecoder decoder_;
    jpeg::EntropyIndex index_;
    jpeg::Header header_;
    jpeg::ScanReader reader_;
    jpeg::ScanData data_;
    ImageSize size_;
    bool is_indexed_ = false;
};

}  // namespace fastload::testing
