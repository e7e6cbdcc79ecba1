// Lets the address sanitizer detect reads of pixels that kernels promise not to read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/image_view.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace fastload::testing {

// While it lives, only the window of `view` can be read of an image of `size`: its columns, in the strips it touches. A
// column of a strip is 8 bytes, the finest granularity of the sanitizer.
class ReadableWindow {
  public:
    ReadableWindow(const StripImageView& view, ImageSize size) : view_(view), size_(size) {
        for_each_outside([](const std::uint8_t* bytes, std::size_t count) {
            static_cast<void>(bytes);
            static_cast<void>(count);
            ASAN_POISON_MEMORY_REGION(bytes, count);
        });
    }
    ~ReadableWindow() {
        for_each_outside([](const std::uint8_t* bytes, std::size_t count) {
            static_cast<void>(bytes);
            static_cast<void>(count);
            ASAN_UNPOISON_MEMORY_REGION(bytes, count);
        });
    }
    ReadableWindow(const ReadableWindow&) = delete;
    ReadableWindow& operator=(const ReadableWindow&) = delete;

  private:
    template <typename Visit>
    void for_each_outside(Visit visit) const {
        const std::size_t left = kStripRows * static_cast<std::size_t>(view_.left);
        const std::size_t right = left + kStripRows * static_cast<std::size_t>(view_.width);
        const auto first_strip = static_cast<std::size_t>(view_.top) / kStripRows;
        const auto last_strip = static_cast<std::size_t>(view_.top + view_.height - 1) / kStripRows;
        const auto strips = (static_cast<std::size_t>(size_.height) + kStripRows - 1) / kStripRows;
        for (const std::uint8_t* plane : view_.planes) {
            for (std::size_t strip = 0; strip < strips; ++strip) {
                const std::uint8_t* bytes = plane + strip * view_.strip_stride_bytes;
                if (strip < first_strip || strip > last_strip) {
                    visit(bytes, view_.strip_stride_bytes);
                } else {
                    visit(bytes, left);
                    visit(bytes + right, view_.strip_stride_bytes - right);
                }
            }
        }
    }

    StripImageView view_;
    ImageSize size_;
};

}  // namespace fastload::testing
