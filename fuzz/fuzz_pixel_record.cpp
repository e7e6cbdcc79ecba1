// Reads pixel records: any bytes, and a valid record with changed bytes and right sums. An accepted one is read to its
// last pixel.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "coefficient_records.h"
#include "fuzz_input.h"
#include "image/plan/pixel_record.h"
#include "pixel_records.h"

namespace fastload {
namespace {

using fuzzing::Input;
using fuzzing::require;
using testing::kPixelHeadBytes;
using testing::kSalt;
using testing::record_key;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kAnyPixels = std::numeric_limits<std::uint64_t>::max();

Status open(const Bytes& record, PixelRecordReader* reader) {
    std::uint8_t* const place = reader->reserve(record.size());
    require(place != nullptr);
    std::memcpy(place, record.data(), record.size());
    return reader->open(record_key(), kSalt, kAnyPixels);
}

// A record whose sizes and pixels come from `input`.
Bytes true_record(Input* input) {
    const ImageSize size = {1 + input->choose(40), 1 + input->choose(40)};
    PixelRecordWriter writer;
    std::uint8_t* const place = writer.begin(size, {1 + input->choose(250), 1 + input->choose(250)});
    require(place != nullptr);
    Bytes pixels = input->raw_array<std::uint8_t>(pixel_bytes(size));
    pixels.resize(pixel_bytes(size));
    std::memcpy(place, pixels.data(), pixels.size());
    const ByteSpan record = writer.finish(record_key(), kSalt, {});
    return {record.begin(), record.end()};
}

void check_any_record(const Bytes& record) {
    PixelRecordReader reader;
    if (!open(record, &reader).is_ok()) return;
    const PlanarImageView& image = reader.image();
    Bytes row(static_cast<std::size_t>(image.width));
    for (const std::uint8_t* const plane : image.planes) {
        for (std::int32_t y = 0; y < image.height; ++y) {
            std::memcpy(row.data(), plane + static_cast<std::size_t>(y) * image.row_stride_bytes, row.size());
        }
    }
}

void check(ByteSpan data) {
    Input input(data);
    const bool is_any = input.choose(2) == 1;
    if (input.rest().is_empty()) return;  // a store has no empty records
    if (is_any) return check_any_record({input.rest().begin(), input.rest().end()});
    const Bytes sizes = input.raw_array<std::uint8_t>(4);
    Input of_sizes({sizes.data(), sizes.size()});
    Bytes record = true_record(&of_sizes);
    record.resize(record.size() + input.raw<std::uint16_t>() % 2000);
    fuzzing::change_bytes(&input, &record);
    testing::put_pixel_sums_right(record_key(), kSalt, &record);
    check_any_record(record);
}

}  // namespace
}  // namespace fastload

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fastload::check({data, size});
    return 0;
}
