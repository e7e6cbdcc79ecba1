// Decodes regions of a fixed file with indexes: records of any bytes, valid ones, and valid ones with one wrong
// checkpoint, with the kernels of every instruction set. No index changes the verdict. A valid one changes no pixel,
// and neither does a wrong checkpoint in a dense one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "coefficient_records.h"
#include "fuzz_input.h"
#include "kernels/dispatch.h"
#include "small_picture.h"
#include "test_images.h"

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
    ImageSize size() const noexcept { return size_; }
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

// The result of decoding the whole file.
struct Truth {
    Truth() : pixels(decoder.decode(decoder.whole(), nullptr)) {
        for (const IndexLevel level : {IndexLevel::kRows, IndexLevel::kDense}) {
            EntropyIndex& index = level == IndexLevel::kDense ? dense : rows;
            FileDecoder other(**runnable_kernel_tables().begin());
            require(index.begin(other.shape(), level).is_ok());
            other.decode(other.whole(), &index);
            require(index.is_complete() && !other.was_index_wrong());
        }
    }
    bool are_pixels(const StripImageView& view, const Region& region) const {
        return testing::is_same_view(view, pixels.crop(region));
    }
    const EntropyIndex& any_index(Input* input) const { return input->choose(2) == 0 ? rows : dense; }

    FileDecoder decoder{**runnable_kernel_tables().begin()};
    StripImageView pixels;
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
        checkpoints[at].position_bits ^= std::uint64_t{1} << input->choose(17);
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
    const Region region = testing::any_region(decoder->size(), [&input] { return input.raw<std::uint16_t>(); });
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
