#include <cstring>
#include <type_traits>

#include "kernels/convert.h"
#include "kernels/convert_frame.h"
#include "kernels/transpose.h"

namespace fastload {
namespace {

struct SameByte {
    using Element = std::uint8_t;
    Element operator()(int /*channel*/, std::uint8_t value) const noexcept { return value; }
};

template <typename T>
struct Lookup {
    using Element = T;
    const T* table;
    Element operator()(int channel, std::uint8_t value) const noexcept { return table[256 * channel + value]; }
};

// Writes runs of pixels of one row. `Convert` turns a byte of a channel into an element.
template <typename Convert, bool kIsChannelsLast>
class Writer {
  public:
    using Element = typename Convert::Element;

    Writer(Convert convert, const ConvertJob& job, void* destination) noexcept
        : convert_(convert),
          layout_(job),
          is_mirrored_(job.is_mirrored),
          destination_(static_cast<Element*>(destination)) {}

    // `count` pixels starting at `pixels` of the three planes to columns [x, x + count) of row y.
    void write_run(const std::uint8_t* const pixels[3], std::size_t count, std::size_t x,
                   std::size_t y) const noexcept {
        if (is_mirrored_) {
            write_run<true>(pixels, count, x, y);
        } else {
            write_run<false>(pixels, count, x, y);
        }
    }

    void pad_run(std::size_t count, std::size_t x, std::size_t y) const noexcept {
        if (count == 0) return;
        for (int channel = 0; channel < 3; ++channel) {
            Element* output = destination_ + layout_.element(channel, x, y);
            const Element value = convert_(channel, 0);
            for (std::size_t i = 0; i < count; ++i) output[i * kStep] = value;
        }
    }

  private:
    static constexpr std::size_t kStep = kIsChannelsLast ? 3 : 1;
    static constexpr bool kIsPlainCopy = std::is_same_v<Convert, SameByte> && !kIsChannelsLast;

    template <bool kIsMirrored>
    void write_run(const std::uint8_t* const pixels[3], std::size_t count, std::size_t x,
                   std::size_t y) const noexcept {
        for (int channel = 0; channel < 3; ++channel) {
            Element* output = destination_ + layout_.element(channel, x, y);
            const std::uint8_t* input = pixels[channel];
            std::size_t i = 0;
            // Lookups are bound by loads and stores, so this takes eight pixels with one load. The compiler vectorises
            // a plain copy.
            for (; !kIsPlainCopy && i + 8 <= count; i += 8) {
                std::uint64_t word = 0;
                std::memcpy(&word, input + (kIsMirrored ? count - 8 - i : i), 8);
                for (std::size_t j = 0; j < 8; ++j) {
                    const std::size_t byte = kIsMirrored ? 7 - j : j;
                    output[(i + j) * kStep] = convert_(channel, static_cast<std::uint8_t>(word >> (8 * byte)));
                }
            }
            for (; i < count; ++i) {
                output[i * kStep] = convert_(channel, input[kIsMirrored ? count - 1 - i : i]);
            }
        }
    }

    Convert convert_;
    ElementLayout layout_;
    bool is_mirrored_;
    Element* destination_;
};

// Writes everything outside of the window.
template <typename Writer>
void write_padding(const Writer& writer, const ConvertJob& job, std::int32_t width, std::int32_t height) noexcept {
    if (width == job.width && height == job.height) return;
    const auto columns = static_cast<std::size_t>(job.width);
    const auto left = static_cast<std::size_t>(job.left);
    const auto right = left + static_cast<std::size_t>(width);
    for (std::int32_t y = 0; y < job.height; ++y) {
        const auto row = static_cast<std::size_t>(y);
        if (width == 0 || y < job.top || y >= job.top + height) {
            writer.pad_run(columns, 0, row);
        } else {
            writer.pad_run(left, 0, row);
            writer.pad_run(columns - right, right, row);
        }
    }
}

template <bool kIsChannelsLast, typename Convert, typename Source>
void write_all(Convert convert, const Source& source, const ConvertJob& job, void* destination) noexcept {
    const Writer<Convert, kIsChannelsLast> writer(convert, job, destination);
    write_padding(writer, job, source.width, source.height);
    if constexpr (!std::is_same_v<Source, ImageSize>) write_pixels(writer, source, job, strip_to_rows);
}

// `source` is an image, or the size of one whose padding alone is written.
template <typename Convert, typename Source>
void convert_with(Convert convert, const Source& source, const ConvertJob& job, void* destination) noexcept {
    job.is_channels_last ? write_all<true>(convert, source, job, destination)
                         : write_all<false>(convert, source, job, destination);
}

template <typename T>
Lookup<T> lookup(const ConvertJob& job) noexcept {
    return {static_cast<const T*>(job.table)};
}

template <typename Source>
void convert(const Source& source, const ConvertJob& job, void* destination) noexcept {
    if (job.table == nullptr) return convert_with(SameByte{}, source, job, destination);
    const int bytes = job.element_size_bytes;
    if (bytes == 1) return convert_with(lookup<std::uint8_t>(job), source, job, destination);
    if (bytes == 2) return convert_with(lookup<std::uint16_t>(job), source, job, destination);
    if (bytes == 4) return convert_with(lookup<std::uint32_t>(job), source, job, destination);
    convert_with(lookup<std::uint64_t>(job), source, job, destination);
}

}  // namespace

void convert_rows_scalar(const PlanarImageView& source, const ConvertJob& job, void* destination) noexcept {
    convert(source, job, destination);
}

void convert_strips_scalar(const StripImageView& source, const ConvertJob& job, void* destination) noexcept {
    convert(source, job, destination);
}

void convert_padding_scalar(ImageSize window, const ConvertJob& job, void* destination) noexcept {
    convert(window, job, destination);
}

}  // namespace fastload
