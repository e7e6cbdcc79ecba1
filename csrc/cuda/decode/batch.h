// The samples of a batch on a device, and what is done before they are decoded.
#pragma once

#include <cstdint>

#include "cuda/bits.h"
#include "cuda/decode/scan_sample.h"
#include "device/decode_batch.h"

namespace fastload {

// `is_scan` is false for a sample in pixel form, which has no other memory here than its pixels.
struct BatchSample {
    ScanSample scan;
    bool is_scan;
};

FASTLOAD_HOST_DEVICE inline BatchSample sample_of(const DecodeBatch& batch, std::uint32_t number) {
    const WireEntry& entry = wire_entry(batch.wire, number);
    BatchSample sample;
    sample.scan.wire = batch.wire + std::uint64_t{16} * entry.offset;
    sample.scan.scratch = batch.scratch + std::uint64_t{16} * entry.scratch;
    sample.scan.pixels = batch.pixels + number * batch.pixel_bytes;
    sample.is_scan = entry.form == SampleForm::kScan;
    return sample;
}

// Makes the coefficients of a sample in scan form zero, and copies the pixels of any other.
FASTLOAD_HOST_DEVICE inline void prepare_sample(const DecodeBatch& batch, std::uint32_t number, ThreadShare share) {
    const BatchSample sample = sample_of(batch, number);
    if (share.first == 0) batch.faults[number] = 0;
    if (sample.is_scan) {
        const std::uint64_t pieces = ScanScratch(sample.scan.head()).samples / 16;
        for (std::uint64_t i = share.first; i < pieces; i += share.stride) {
            store_bits(sample.scan.scratch + 16 * i, Bits<16>());
        }
        return;
    }
    // Samples of any size follow each other without gaps.
    const std::uint64_t pieces = batch.pixel_bytes % 16 == 0 ? batch.pixel_bytes / 16 : 0;
    for (std::uint64_t i = share.first; i < pieces; i += share.stride) {
        store_bits(sample.scan.pixels + 16 * i, load_bits<16>(sample.scan.wire + 16 * i));
    }
    for (std::uint64_t i = 16 * pieces + share.first; i < batch.pixel_bytes; i += share.stride) {
        sample.scan.pixels[i] = sample.scan.wire[i];
    }
}

}  // namespace fastload
