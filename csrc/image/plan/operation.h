// An operation on the image of one sample: all draws are made, all sizes are known.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "image/pixels/fill_image.h"

namespace fastload {

class DescribedImage;
class WorkingImage;

// The layout of a sample's elements in the batch.
struct OutputLayout {
    int element_size_bytes = 1;  // 1, 2, 4 or 8
    bool channels_last = false;  // HWC in memory, otherwise CHW
    // 3 x 256 elements: element 256 * c + v is the result for value v of channel c. Made by torch's own operations when
    // a pipeline is lowered, so it includes dtype, scaling and normalisation. Empty: uint8 as decoded.
    std::vector<std::uint8_t> table;
    bool is_bgr = false;  // blue is channel 0, red is channel 2
};

// An operation in a SampleReport: its name, then its arguments. Texts are static, and bytes live as long as the plan.
using OperationReport = std::vector<std::variant<const char*, std::int64_t, double, RgbFill, ByteSpan>>;

// Must not outlive the plan whose steps have made it.
class Operation {
  public:
    virtual ~Operation() = default;

    // Changes the image. Fails with kOutOfMemory, and with kInvalidGeometry if a table's size overflows.
    virtual Status run(WorkingImage* image) const noexcept = 0;

    // Changes the description of an image as run() changes the image. False if that takes pixels on the host.
    virtual bool describe(DescribedImage* /*image*/) const noexcept { return false; }

    // Changes the finished elements of a sample of `size`, after the last write.
    virtual void run_on_elements(const OutputLayout& /*layout*/, ImageSize /*size*/, void* /*sample*/) const noexcept {}

    virtual OperationReport report() const = 0;
};

// An operation that can make a part of its result without the rest.
class PartialOperation : public Operation {
  public:
    // Restricts the operation to `window`, which lies inside of the result, and returns the part of its input that this
    // reads.
    virtual Region make_only(const Region& window) noexcept = 0;
};

}  // namespace fastload
