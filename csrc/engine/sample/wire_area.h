// The memory of a batch on its way to a device, from which samples take what they need.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/decode_batch.h"

namespace fastload {

// Note [admission]
// A batch's wire has room for all of its samples as pixels, and no more need fit. A sample in scan form is let in if
// all that have no place yet would still fit as pixels. So a sample never waits for room, and never fails for want of
// it. The order in which samples come decides where they lie, and which are let in; the pixels are the same in any
// case.

// The wire of one batch: Note [decoded batch]. Thread-safe; a sample is placed by one thread.
class WireArea {
  public:
    // Each sample begins at a whole line of the device's memory.
    static constexpr std::size_t kAlignment = 256;

    // Bytes for `num_samples` of `pixel_bytes` each.
    static std::size_t size_for(std::uint32_t num_samples, std::size_t pixel_bytes) noexcept {
        return rounded(sizeof(WireEntry) * num_samples) + rounded(pixel_bytes) * num_samples;
    }

    // `wire` has `size_bytes`, at least what size_for() says and less than 64 GiB, at a multiple of kAlignment. Samples
    // are decoded in `scratch_bytes` of the device's memory.
    WireArea(std::uint8_t* wire, std::size_t size_bytes, std::uint32_t num_samples, std::size_t pixel_bytes,
             std::uint64_t scratch_bytes) noexcept;

    // The memory of sample `position` in scan form, of which this is the head; null if there is no room for it in this
    // form, here or on the device, or if the sample has a place.
    std::uint8_t* take_scan(std::size_t position, const ScanHead& head) noexcept;
    // The memory of the sample's pixels. May be called again, but not after take_scan() has returned memory.
    std::uint8_t* take_pixels(std::size_t position) noexcept;

    // The bytes that are copied to the device. Ask after all samples are placed.
    std::size_t used_bytes() const noexcept { return units_used() * kAlignment; }

  private:
    static constexpr std::size_t rounded(std::size_t bytes) noexcept {
        return (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    std::size_t units_used() const noexcept { return static_cast<std::size_t>(state_.load() & UINT32_MAX); }
    std::uint8_t* take(std::size_t position, SampleForm form, std::size_t bytes) noexcept;

    std::uint8_t* const wire_;
    const std::uint64_t num_units_;    // of kAlignment
    const std::uint64_t pixel_units_;  // of a sample
    const std::size_t pixel_bytes_;
    const std::uint64_t scratch_bytes_;
    std::atomic<std::uint64_t> state_;  // samples without a place << 32 | units that are used
};

}  // namespace fastload
