#include "engine/sample/wire_area.h"

#include <cstring>

namespace fastload {

WireArea::WireArea(std::uint8_t* wire, std::size_t size_bytes, std::uint32_t num_samples, std::size_t pixel_bytes,
                   std::uint64_t scratch_bytes) noexcept
    : wire_(wire),
      num_units_(size_bytes / kAlignment),
      pixel_units_(rounded(pixel_bytes) / kAlignment),
      pixel_bytes_(pixel_bytes),
      scratch_bytes_(scratch_bytes),
      state_(std::uint64_t{num_samples} << 32 | rounded(sizeof(WireEntry) * num_samples) / kAlignment) {
    std::memset(wire, 0, sizeof(WireEntry) * num_samples);
}

std::uint8_t* WireArea::take_scan(std::size_t position, const ScanHead& head) noexcept {
    const bool has_place = wire_entry(wire_, static_cast<std::uint32_t>(position)).size != 0;
    if (has_place || ScanScratch(head).end > scratch_bytes_) return nullptr;
    return take(position, SampleForm::kScan, head.bytes);
}

std::uint8_t* WireArea::take_pixels(std::size_t position) noexcept {
    const WireEntry& entry = wire_entry(wire_, static_cast<std::uint32_t>(position));
    if (entry.size != 0) return wire_ + std::uint64_t{16} * entry.offset;
    return take(position, SampleForm::kPixels, pixel_bytes_);
}

std::uint8_t* WireArea::take(std::size_t position, SampleForm form, std::size_t bytes) noexcept {
    const std::uint64_t units = rounded(bytes) / kAlignment;
    std::uint64_t state = state_.load();
    std::uint64_t used = 0;
    do {
        used = state & UINT32_MAX;
        const std::uint64_t num_others = (state >> 32) - 1;
        if (used + units + num_others * pixel_units_ > num_units_) return nullptr;
    } while (!state_.compare_exchange_weak(state, ((state >> 32) - 1) << 32 | (used + units)));
    const std::uint64_t offset = used * kAlignment;
    reinterpret_cast<WireEntry*>(wire_)[position] = {form, static_cast<std::uint32_t>(offset / 16),
                                                     static_cast<std::uint32_t>((bytes + 15) / 16), 0};
    return wire_ + offset;
}

}  // namespace fastload
