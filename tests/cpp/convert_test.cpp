#include "kernels/convert.h"

#include <cstring>
#include <vector>

#include "check.h"
#include "kernels/dispatch.h"
#include "test_images.h"

namespace fastload {
namespace {

using testing::PlanarImage;
using testing::StripImage;

// Distinct bits for every (channel, value), so that a wrong channel or value shows.
template <typename T>
std::vector<T> make_table() {
    std::vector<T> table;
    for (std::uint64_t i = 0; i < 768; ++i) table.push_back(static_cast<T>((i + 1) * 0x9E3779B97F4A7C15U >> 3));
    return table;
}

template <typename T>
T element_of(const std::vector<T>& table, int channel, std::uint8_t value) {
    return table.empty() ? static_cast<T>(value) : table[static_cast<std::size_t>(channel) * 256 + value];
}

// The contract, element by element.
template <typename T>
std::vector<T> expected_elements(const StripImageView& source, const ConvertJob& job, const std::vector<T>& table) {
    const auto width = static_cast<std::size_t>(job.width);
    const auto height = static_cast<std::size_t>(job.height);
    std::vector<T> result(3 * width * height);
    for (int channel = 0; channel < 3; ++channel) {
        for (std::size_t y = 0; y < height; ++y) {
            for (std::size_t x = 0; x < width; ++x) {
                const std::int32_t column = static_cast<std::int32_t>(x) - job.left;
                const std::int32_t row = static_cast<std::int32_t>(y) - job.top;
                std::uint8_t value = 0;
                if (column >= 0 && column < source.width && row >= 0 && row < source.height) {
                    value = source.at(channel, job.is_mirrored ? source.width - 1 - column : column, row);
                }
                const auto c = static_cast<std::size_t>(channel);
                const std::size_t index = job.is_channels_last ? 3 * (y * width + x) + c : (c * height + y) * width + x;
                result[index] = element_of(table, channel, value);
            }
        }
    }
    return result;
}

template <typename T>
void check_convert(const StripImageView& source, ConvertJob job, const std::vector<T>& table) {
    const KernelTable& kernels = *select_kernel_table();
    job.element_size_bytes = sizeof(T);
    job.table = table.empty() ? nullptr : table.data();
    const std::vector<T> expected = expected_elements(source, job, table);
    std::vector<T> from_strips(expected.size(), static_cast<T>(0x5A));
    kernels.convert_strips(source, job, from_strips.data());
    CHECK(from_strips == expected);

    PlanarImage rows(source.width, source.height);
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < source.height; ++y) {
            for (std::int32_t x = 0; x < source.width; ++x) rows.at(plane, x, y) = source.at(plane, x, y);
        }
    }
    std::vector<T> from_rows(expected.size(), static_cast<T>(0x5A));
    kernels.convert_rows(rows.view(), job, from_rows.data());
    CHECK(from_rows == expected);
}

void check_all_elements(const StripImageView& source, const ConvertJob& job) {
    check_convert<std::uint8_t>(source, job, {});
    check_convert(source, job, make_table<std::uint8_t>());
    check_convert(source, job, make_table<std::uint16_t>());
    check_convert(source, job, make_table<std::uint32_t>());
    check_convert(source, job, make_table<std::uint64_t>());
}

void check_all_layouts(const StripImageView& source, ConvertJob job) {
    for (const bool is_mirrored : {false, true}) {
        for (const bool is_channels_last : {false, true}) {
            job.is_mirrored = is_mirrored;
            job.is_channels_last = is_channels_last;
            check_all_elements(source, job);
        }
    }
}

}  // namespace

TEST_CASE(convert_writes_every_layout_at_sizes_around_its_tiles) {
    std::uint32_t seed = 0;
    for (const std::int32_t width : {1, 7, 8, 9, 63, 64, 65, 130}) {
        for (const std::int32_t height : {1, 7, 8, 9}) {
            const StripImage image(width, height, ++seed);
            ConvertJob job;
            job.width = width;
            job.height = height;
            check_all_layouts(image.view(), job);
        }
    }
}

TEST_CASE(convert_reads_windows_at_any_offset) {
    const StripImage image(90, 30, 7);
    for (std::int32_t offset = 0; offset < 9; ++offset) {
        ConvertJob job;
        job.width = 70 + offset;
        job.height = 20 - offset;
        check_all_layouts(image.view().crop({offset, 10 - offset, job.width, job.height}), job);
    }
}

TEST_CASE(convert_pads_with_the_entry_of_zero) {
    const StripImage image(20, 11, 9);
    ConvertJob job;
    job.width = 29;
    job.height = 15;
    for (const std::int32_t left : {0, 4, 9}) {
        for (const std::int32_t top : {0, 2, 4}) {
            job.left = left;
            job.top = top;
            check_all_layouts(image.view(), job);
        }
    }
}

TEST_CASE(convert_of_an_empty_window_is_padding_only) {
    const StripImage image(8, 8, 1);
    ConvertJob job;
    job.width = 5;
    job.height = 3;
    check_all_layouts(image.view().crop({0, 0, 0, 0}), job);
}

}  // namespace fastload
