// One sample in scan form on a device: Note [scan form].
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "device/scan_wire.h"

namespace fastload {

// Each pointer is to memory of the device, and all but `pixels` are multiples of 16 bytes.
struct ScanSample {
    const std::uint8_t* wire = nullptr;
    std::uint8_t* scratch = nullptr;  // ScanScratch::end bytes
    std::uint8_t* pixels = nullptr;   // uint8[height, width, 3] of the placement

    FASTLOAD_HOST_DEVICE const ScanHead& head() const { return *reinterpret_cast<const ScanHead*>(wire); }
    // A component's table, in zigzag order.
    FASTLOAD_HOST_DEVICE const std::uint16_t* quantization(int component) const {
        return reinterpret_cast<const std::uint16_t*>(wire + sizeof(ScanHead)) + 64 * component;
    }
    FASTLOAD_HOST_DEVICE const ScanHuffmanTable& huffman(int table) const {
        return reinterpret_cast<const ScanHuffmanTable*>(wire + ScanLayout(head()).huffman)[table];
    }
    FASTLOAD_HOST_DEVICE const ScanPlace& place(std::uint32_t number) const {
        return reinterpret_cast<const ScanPlace*>(wire + ScanLayout(head()).places)[number];
    }
    FASTLOAD_HOST_DEVICE std::int16_t* coefficients() const { return reinterpret_cast<std::int16_t*>(scratch); }
    // The samples of a component's part of the window, in rows of 8 * blocks_wide.
    FASTLOAD_HOST_DEVICE std::uint8_t* samples(const WireComponent& component) const {
        return scratch + ScanScratch(head()).samples + std::uint64_t{64} * component.first_block;
    }
};

FASTLOAD_HOST_DEVICE inline std::int32_t clamp_to(std::int32_t value, std::int32_t low, std::int32_t high) {
    return value < low ? low : (value > high ? high : value);
}

}  // namespace fastload
