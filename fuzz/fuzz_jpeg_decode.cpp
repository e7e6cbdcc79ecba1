// Decodes a file, and a region chosen by the input's own bytes, with the kernels of every instruction set. If the full
// decode succeeds, the region must too and be its crop, and so must a record of the file's coefficients, if it has one.
// All kernels must return the same allowed verdicts, the same pixels and the same record.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "codec/jpeg/jpeg_decoder.h"
#include "coefficient_records.h"
#include "fuzz_input.h"
#include "kernels/dispatch.h"
#include "test_images.h"

namespace fastload {
namespace {

using fuzzing::require;
using testing::pixels_of;

void check_verdict(const Status& status) {
    require(status.is_ok() || is_for_fallback(status.code) || status.code == StatusCode::kOutOfMemory);
    require(status.is_ok() || *status.detail != '\0');
}

// A region that depends on the bytes, so that a fuzzer can control it.
Region region_of(ByteSpan file, const ImageSize& size) {
    std::uint32_t hash = 2166136261U;
    for (const std::uint8_t byte : file) hash = (hash ^ byte) * 16777619U;
    return testing::any_region(size, [&hash] { return (hash = hash * 1664525U + 1013904223U) >> 8; });
}

// The results for a file: the verdict on all of it, the pixels of the region if there are any, and the record.
struct Outcome {
    StatusCode code = StatusCode::kOk;
    std::vector<std::uint8_t> pixels;
    std::vector<std::uint8_t> record;
};

Outcome decode_twice(JpegDecoder& decoder, ByteSpan file) {
    ImageInfo info;
    const Status header = decoder.read_header(file, &info);
    check_verdict(header);
    if (!header.is_ok()) return {header.code, {}, {}};
    int orientation = 0;
    if (decoder.read_orientation(&orientation).is_ok()) require(orientation >= 1 && orientation <= 8);
    StripImageView view;
    const Status full = decoder.decode({0, 0, info.size.width, info.size.height}, &view);
    check_verdict(full);
    std::vector<std::uint8_t> expected;
    const Region region = region_of(file, info.size);
    if (full.is_ok()) expected = pixels_of(view.crop(region));
    const Status part = decoder.decode(region, &view);
    check_verdict(part);
    if (full.is_ok()) require(part.is_ok() && pixels_of(view) == expected);
    return {full.code, std::move(expected), {}};
}

void check_record(const KernelTable& kernels, ByteSpan file, const DecodeLimits& limits, Outcome* outcome) {
    outcome->record = testing::record_of(kernels, file, limits);
    if (outcome->record.empty()) return;
    testing::RecordDecoder decoder(kernels);
    StripImageView view;
    ImageInfo info;
    const auto header = std::make_unique<JpegDecoder>(kernels, limits);
    require(outcome->code == StatusCode::kOk && header->read_header(file, &info).is_ok());
    require(decoder.decode(outcome->record, region_of(file, info.size), &view).is_ok());
    require(pixels_of(view) == outcome->pixels);
}

}  // namespace
}  // namespace fastload

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace fastload;
    DecodeLimits limits;
    limits.max_pixels = 1 << 20;
    std::optional<Outcome> expected;
    for (const KernelTable* kernels : runnable_kernel_tables()) {
        // A fresh decoder, so that a run depends only on this input.
        const auto decoder = std::make_unique<JpegDecoder>(*kernels, limits);
        Outcome outcome = decode_twice(*decoder, {data, size});
        check_record(*kernels, {data, size}, limits, &outcome);
        if (!expected) {
            expected = std::move(outcome);
        } else {
            fuzzing::require(outcome.code == expected->code && outcome.pixels == expected->pixels &&
                             outcome.record == expected->record);
        }
    }
    return 0;
}
