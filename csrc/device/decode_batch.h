// A batch whose samples a device decodes: Note [decoded batch].
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/scan_wire.h"

namespace fastload {

enum class SampleForm : std::uint32_t { kPixels, kScan };

// Note [decoded batch]
// A batch goes to the device in one copy, its wire. It begins with a WireEntry for each sample; the samples, in scan
// form or as pixels, lie anywhere after these, each at a multiple of 16 bytes.
//
// A run is some consecutive samples whose scratch memory fits at one time: place_scratch() begins a new one where the
// next sample would not fit. The runs of a batch are decoded one after the other, in the same memory.
struct WireEntry {
    SampleForm form;
    // In units of 16 bytes.
    std::uint32_t offset;   // of the sample, from the first byte of the wire
    std::uint32_t size;     // of its memory there
    std::uint32_t scratch;  // kScan: the offset of its scratch memory; 0 begins a run
};

static_assert(sizeof(WireEntry) == 16);

// The memory of a batch. All but `host_wire` is on the device, at multiples of 16 bytes.
struct DecodeBatch {
    const std::uint8_t* host_wire = nullptr;
    const std::uint8_t* wire = nullptr;
    std::uint8_t* scratch = nullptr;
    std::uint8_t* pixels = nullptr;   // uint8[num_samples, height, width, 3]
    std::uint32_t* faults = nullptr;  // [num_samples]: a PieceFault, or 0
    std::uint64_t pixel_bytes = 0;    // of one sample
    std::uint32_t num_samples = 0;
};

// The most that the grid of a kernel has of it.
constexpr std::uint32_t kMaxSamplesOfRun = 65'535;

// A run, and the most that one of its samples has.
struct DecodeRun {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t pieces = 0;
    std::uint64_t blocks = 0;
    std::uint64_t pixels = 0;  // of its region, of the results of a pass, or of the placement
};

FASTLOAD_HOST_DEVICE inline const WireEntry& wire_entry(const std::uint8_t* wire, std::uint32_t sample) {
    return reinterpret_cast<const WireEntry*>(wire)[sample];
}

inline const ScanHead& scan_head(const std::uint8_t* wire, const WireEntry& entry) {
    return *reinterpret_cast<const ScanHead*>(wire + std::uint64_t{16} * entry.offset);
}

// Gives each sample in scan form its scratch memory. None of them needs more than `scratch_bytes`.
inline void place_scratch(std::uint8_t* host_wire, std::uint32_t num_samples, std::uint64_t scratch_bytes) {
    std::uint64_t used = 0;
    for (std::uint32_t i = 0; i < num_samples; ++i) {
        WireEntry& entry = reinterpret_cast<WireEntry*>(host_wire)[i];
        if (entry.form != SampleForm::kScan) continue;
        const std::uint64_t bytes = ScanScratch(scan_head(host_wire, entry)).end;
        if (used + bytes > scratch_bytes) used = 0;
        entry.scratch = static_cast<std::uint32_t>(used / 16);
        used += bytes;
    }
}

// Returns the run that begins with sample `first`.
inline DecodeRun run_from(const DecodeBatch& batch, std::uint32_t first) {
    DecodeRun run;
    run.first = first;
    bool has_scan = false;
    const std::uint32_t end = std::min(batch.num_samples, first + kMaxSamplesOfRun);
    for (std::uint32_t i = first; i < end; ++i, ++run.count) {
        const WireEntry& entry = wire_entry(batch.host_wire, i);
        if (entry.form != SampleForm::kScan) continue;
        if (has_scan && entry.scratch == 0) break;
        has_scan = true;
        const ScanHead& head = scan_head(batch.host_wire, entry);
        const auto area = [](std::int32_t width, std::int32_t height) {
            return static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
        };
        run.pieces = std::max(run.pieces, head.num_places);
        run.blocks = std::max(run.blocks, num_scan_blocks(head));
        run.pixels =
            std::max({run.pixels, area(head.region_width, head.region_height), area(head.x.count, head.region_height),
                      area(head.region_width, head.y.count), area(head.placement.width, head.placement.height)});
    }
    return run;
}

}  // namespace fastload
