// Decodes regions of a fixed file with indexes: records of any bytes, valid ones, and valid ones with one wrong
// checkpoint, with the kernels of every instruction set. No index changes the verdict. A valid one changes no pixel,
// and neither does a wrong checkpoint in a dense one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "fuzz_input.h"
#include "kernels/dispatch.h"
#include "small_picture.h"

namespace fastload {
namespace {

using fuzzing::Input;
using fuzzing::require;
using jpeg::Checkpoint;
using jpeg::EntropyIndex;
using jpeg::IndexLevel;

constexpr ByteSpan kFile = {testing::kSmallPicture, sizeof(testing::kSmallPicture)};

// The decoder of one set of kernels, which has accepted the file's header.
class FileDecoder {
  public:
    explicit FileDecoder(const KernelTable& kernels)
        : decoder_(std::make_unique<JpegDecoder>(kernels, DecodeLimits{})) {
        ImageInfo info;
        require(decoder_->read_header(kFile, &info).is_ok() && decoder_->scan_shape(&shape_));
        size_ = info.size;
    }
    const jpeg::ScanShape& shape() const noexcept { return shape_; }
    Region whole() const noexcept { return {0, 0, size_.width, size_.height}; }

    // Only lack of memory keeps the file from being decoded. The returned view is valid until the next call.
    StripImageView decode(const Region& region, EntropyIndex* index) {
        StripImageView view;
        require(decoder_->decode(region, index, &view).is_ok());
        require(view.width == region.width && view.height == region.height);
        return view;
    }
    bool was_index_wrong() const noexcept { return decoder_->was_index_wrong(); }

  private:
    std::unique_ptr<JpegDecoder> decoder_;
    jpeg::ScanShape shape_;
    ImageSize size_;
};

Region any_region(Input* input, const Region& whole) {
    const auto pick = [input](std::int32_t count) {
        return static_cast<std::int32_t>(input->raw<std::uint16_t>() % static_cast<std::uint32_t>(count));
    };
    Region region;
    region.left = pick(whole.width);
    region.top = pick(whole.height);
    region.width = 1 + pick(whole.width - region.left);
    region.height = 1 + pick(whole.height - region.top);
    return region;
}

// The result of decoding the whole file.
struct Truth {
    Truth() {
        FileDecoder decoder(**runnable_kernel_tables().begin());
        const Region whole = decoder.whole();
        width = whole.width;
        const StripImageView view = decoder.decode(whole, nullptr);
        for (int plane = 0; plane < 3; ++plane) {
            for (std::int32_t y = 0; y < whole.height; ++y) {
                for (std::int32_t x = 0; x < width; ++x) planes[plane].push_back(view.at(plane, x, y));
            }
        }
        for (const IndexLevel level : {IndexLevel::kRows, IndexLevel::kDense}) {
            EntropyIndex& index = level == IndexLevel::kDense ? dense : rows;
            require(index.begin(decoder.shape(), level).is_ok());
            decoder.decode(whole, &index);
            require(index.is_complete() && !decoder.was_index_wrong());
        }
    }
    bool are_pixels(const StripImageView& view, const Region& region) const {
        for (int plane = 0; plane < 3; ++plane) {
            for (std::int32_t y = 0; y < region.height; ++y) {
                const std::uint8_t* const row = planes[plane].data() + (region.top + y) * width + region.left;
                for (std::int32_t x = 0; x < region.width; ++x) {
                    if (view.at(plane, x, y) != row[x]) return false;
                }
            }
        }
        return true;
    }
    const EntropyIndex& any_index(Input* input) const { return input->choose(2) == 0 ? rows : dense; }

    std::int32_t width = 0;
    std::vector<std::uint8_t> planes[3];
    EntropyIndex rows;
    EntropyIndex dense;
};

// Made once.
const Truth& truth() {
    static const Truth made;
    return made;
}

EntropyIndex beginning_of(const EntropyIndex& whole, std::uint32_t rows) {
    EntropyIndex index;
    require(index.begin(whole.shape(), whole.level()).is_ok() && index.accepts(whole.data_bytes()));
    for (std::size_t i = 0; i < whole.rule().count_in_rows(rows); ++i) index.append(whole[i]);
    return index;
}

// For a record of any data.
void require_packed_and_read(const EntropyIndex& index) {
    std::vector<std::uint8_t> packed(std::size_t{1} << 12);
    packed.resize(index.pack({packed.data(), packed.size()}));
    EntropyIndex read;
    require(!packed.empty() && read.unpack(index.shape(), {packed.data(), packed.size()}));
    require(read.size() == index.rule().count_in_rows(index.rows_known()) && read.level() == index.level());
    for (std::size_t i = 0; i < read.size(); ++i) require(read[i] == index[i]);
}

void check_any_record(FileDecoder* decoder, const Region& region, ByteSpan record) {
    EntropyIndex index;
    if (!index.unpack(decoder->shape(), record)) return require(index.size() == 0);
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
        require(index[i].position_bits > before && index[i].position_bits <= index.data_bytes() * 8);
        before = index[i].position_bits;
    }
    require_packed_and_read(index);
    decoder->decode(region, &index);
    const bool is_plain = index.size() == 0;
    if (decoder->was_index_wrong()) require(is_plain);
    // An index that was emptied is as good as a new one.
    const StripImageView view = decoder->decode(region, &index);
    if (is_plain) require(truth().are_pixels(view, region));
    require_packed_and_read(index);
}

// The checkpoints that it learns are valid as well.
void check_true_record(FileDecoder* decoder, const Region& region, Input* input) {
    const EntropyIndex& whole = truth().any_index(input);
    const auto rows = static_cast<std::uint32_t>(input->choose(static_cast<int>(whole.shape().mcus_high) + 1));
    EntropyIndex index = beginning_of(whole, rows);
    require(truth().are_pixels(decoder->decode(region, &index), region));
    require(!decoder->was_index_wrong() && index.rows_known() >= rows);
    for (std::size_t i = 0; i < index.size(); ++i) require(index[i] == whole[i]);
}

// Changes one field of one checkpoint. Returns whether a record can express that.
bool change(EntropyIndex* index, Input* input) {
    const auto at = static_cast<std::size_t>(input->choose(static_cast<int>(index->size())));
    std::vector<Checkpoint> checkpoints;
    for (std::size_t i = 0; i < index->size(); ++i) checkpoints.push_back((*index)[i]);
    const int field = input->choose(1 + index->shape().component_count);
    if (field == 0) {
        checkpoints[at].position_bits = input->raw<std::uint16_t>();
    } else {
        checkpoints[at].predictions[field - 1] = input->raw<std::int16_t>();
    }
    index->forget();
    std::uint64_t before = 0;
    for (const Checkpoint& checkpoint : checkpoints) {
        if (checkpoint.position_bits <= before || checkpoint.position_bits > index->data_bytes() * 8) return false;
        before = checkpoint.position_bits;
        index->append(checkpoint);
    }
    return true;
}

void check_changed_record(FileDecoder* decoder, const Region& region, Input* input) {
    const EntropyIndex& whole = truth().any_index(input);
    const int rows = 1 + input->choose(static_cast<int>(whole.shape().mcus_high));
    EntropyIndex index = beginning_of(whole, static_cast<std::uint32_t>(rows));
    if (!change(&index, input)) return;
    const StripImageView view = decoder->decode(region, &index);
    if (whole.level() == IndexLevel::kDense) require(truth().are_pixels(view, region));
}

void check(FileDecoder* decoder, ByteSpan bytes) {
    Input input(bytes);
    const int kind = input.choose(3);
    const Region region = any_region(&input, decoder->whole());
    if (kind == 0) return check_any_record(decoder, region, input.rest());
    if (kind == 1) return check_true_record(decoder, region, &input);
    check_changed_record(decoder, region, &input);
}

}  // namespace
}  // namespace fastload

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace fastload;
    for (const KernelTable* kernels : runnable_kernel_tables()) {
        // A fresh decoder, so that a run depends only on this input.
        FileDecoder decoder(*kernels);
        check(&decoder, {data, size});
    }
    return 0;
}
