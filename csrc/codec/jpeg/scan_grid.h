// The MCUs of one scan.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codec/jpeg/markers.h"
#include "codec/jpeg/reconstruct.h"

namespace fastload::jpeg {

// The MCUs of a scan, and which of them lie in the window. An interleaved scan has the frame's MCUs, a scan of one
// component has the component's blocks (T.81 A.2.2, A.2.3).
struct ScanGrid {
    std::int32_t wide = 0;
    std::int32_t high = 0;
    McuWindow window;

    ScanGrid(const Frame& frame, const Scan& scan, const McuWindow& mcus) noexcept {
        wide = frame.mcus_wide;
        high = frame.mcus_high;
        window = mcus;
        if (scan.component_count > 1) return;
        const FrameComponent& component = frame.components[scan.components[0].component];
        wide = component.blocks_wide;
        high = component.blocks_high;
        window.left = mcus.left * component.horizontal;
        window.top = mcus.top * component.vertical;
        window.right = std::min(mcus.right * component.horizontal, wide);
        window.bottom = std::min(mcus.bottom * component.vertical, high);
    }

    std::uint32_t mcu_count() const noexcept {
        return static_cast<std::uint32_t>(wide) * static_cast<std::uint32_t>(high);
    }
};

// The blocks of one component in an MCU of a scan (T.81 A.2).
struct BlocksOfMcu {
    int horizontal = 1;
    int vertical = 1;

    BlocksOfMcu(const Frame& frame, const Scan& scan, int component) noexcept {
        if (scan.component_count == 1) return;
        const FrameComponent& facts = frame.components[scan.components[component].component];
        horizontal = facts.horizontal;
        vertical = facts.vertical;
    }
    int count() const noexcept { return horizontal * vertical; }
};

}  // namespace fastload::jpeg
