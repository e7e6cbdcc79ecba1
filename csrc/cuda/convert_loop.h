// One thread's share of a conversion. The kernels run it on the device, the unit tests on the host, thread by thread.
#pragma once

#include <cstdint>

#include "cuda/bits.h"

namespace fastload {

// Arguments of one conversion. All pointers are device pointers.
struct BatchConversion {
    const std::uint8_t* pixels = nullptr;  // [images, pixels_per_image, 3]
    const void* table = nullptr;  // 3 x 256 elements: element 256 * c + v is the result for value v of channel c
    void* out = nullptr;          // [images, 3, pixels_per_image], or [images, pixels_per_image, 3] if channels_last
    std::uint64_t images = 0;
    std::uint64_t pixels_per_image = 0;
    int element_size_bytes = 1;  // 1, 2, 4 or 8
    bool channels_last = false;
};

// Elements in a group: 16 bytes of them if every group begins at a multiple of its size, otherwise one.
inline int group_width(const BatchConversion& batch) {
    const auto width = static_cast<std::uintptr_t>(16 / batch.element_size_bytes);
    const bool starts_fit = reinterpret_cast<std::uintptr_t>(batch.pixels) % width == 0 &&
                            reinterpret_cast<std::uintptr_t>(batch.out) % 16 == 0;
    const bool planes_fit = batch.channels_last || batch.pixels_per_image % width == 0;
    return starts_fit && planes_fit ? static_cast<int>(width) : 1;
}

// For images [height, width, 3]: a group is some consecutive values, of any channels.
template <typename Element, int kWidth>
FASTLOAD_HOST_DEVICE void convert_interleaved(const BatchConversion& batch, const Element* table, ThreadShare share) {
    const std::uint64_t values = 3 * batch.images * batch.pixels_per_image;
    const std::uint64_t groups = values / kWidth;
    Element* const out = static_cast<Element*>(batch.out);
    const int channel_step = static_cast<int>(share.stride * kWidth % 3);
    int channel = static_cast<int>(share.first * kWidth % 3);
    for (std::uint64_t group = share.first; group < groups; group += share.stride) {
        const Element* const tables[3] = {table + 256 * channel, table + 256 * ((channel + 1) % 3),
                                          table + 256 * ((channel + 2) % 3)};
        const auto pixels = load_bits<kWidth>(batch.pixels + group * kWidth);
        Bits<kWidth * kSize<Element>> elements;
        for (int i = 0; i < kWidth; ++i) elements.set(i, tables[i % 3][pixels.byte(i)]);
        store_bits(out + group * kWidth, elements);
        channel = (channel + channel_step) % 3;
    }
    for (std::uint64_t i = groups * kWidth + share.first; i < values; i += share.stride) {
        out[i] = table[256 * (i % 3) + batch.pixels[i]];
    }
}

// For images [3, height, width]: a group is some consecutive pixels of one image, with their values in each plane.
// pixels_per_image is a multiple of kWidth.
template <typename Element, int kWidth>
FASTLOAD_HOST_DEVICE void convert_planar(const BatchConversion& batch, const Element* table, ThreadShare share) {
    const std::uint64_t groups_per_image = batch.pixels_per_image / kWidth;
    // Divided once: a step is a number of images and a number of groups.
    const std::uint64_t image_step = share.stride / groups_per_image;
    const std::uint64_t group_step = share.stride % groups_per_image;
    std::uint64_t image = share.first / groups_per_image;
    std::uint64_t group = share.first % groups_per_image;
    while (image < batch.images) {
        const std::uint64_t pixel = image * batch.pixels_per_image + group * kWidth;
        Bits<kWidth> pixels[3];
        for (int i = 0; i < 3; ++i) pixels[i] = load_bits<kWidth>(batch.pixels + 3 * pixel + i * kWidth);
        Element* const out = static_cast<Element*>(batch.out) + 2 * image * batch.pixels_per_image + pixel;
        for (int channel = 0; channel < 3; ++channel) {
            Bits<kWidth * kSize<Element>> elements;
            for (int i = 0; i < kWidth; ++i) {
                const int value = 3 * i + channel;
                elements.set(i, table[256 * channel + pixels[value / kWidth].byte(value % kWidth)]);
            }
            store_bits(out + static_cast<std::uint64_t>(channel) * batch.pixels_per_image, elements);
        }
        image += image_step;
        group += group_step;
        if (group >= groups_per_image) {
            group -= groups_per_image;
            ++image;
        }
    }
}

}  // namespace fastload
