#include "image/steps/point_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "base/span.h"
#include "image/pixels/blend.h"
#include "image/plan/argument_checks.h"

namespace fastload {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::uint64_t, 256>;

template <typename MakeValue>
Table make_table(MakeValue make_value) noexcept {
    Table table;
    for (std::size_t value = 0; value < 256; ++value) {
        table[value] = static_cast<std::uint8_t>(make_value(static_cast<std::int32_t>(value)));
    }
    return table;
}

// Bound by loads and stores, so eight pixels are loaded and stored at a time.
void look_up(const Table& table, std::uint8_t* values, std::size_t count) noexcept {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, values + i, 8);
        std::uint64_t result = 0;
        for (int shift = 0; shift < 64; shift += 8) result |= std::uint64_t{table[(word >> shift) & 255U]} << shift;
        std::memcpy(values + i, &result, 8);
    }
    for (; i < count; ++i) values[i] = table[values[i]];
}

void map_values(const Table& table, const PlanarImageView& pixels, int plane) noexcept {
    for (std::int32_t y = 0; y < pixels.height; ++y) {
        look_up(table, pixels.row(plane, y), static_cast<std::size_t>(pixels.width));
    }
}

void map_values(const Table& table, const PlanarImageView& pixels) noexcept {
    for (int plane = 0; plane < 3; ++plane) map_values(table, pixels, plane);
}

// Counts in four histograms: neighbours are often equal, and one counter would wait for itself.
Histogram count_values(const PlanarImageView& pixels, int plane) noexcept {
    std::array<std::array<std::uint32_t, 256>, 4> counts{};
    Histogram histogram{};
    const auto width = static_cast<std::size_t>(pixels.width);
    for (std::int32_t y = 0; y < pixels.height; ++y) {
        const std::uint8_t* row = pixels.row(plane, y);
        for (std::size_t x = 0; x < width; ++x) ++counts[x % 4][row[x]];
        if (y % 1024 != 1023 && y + 1 != pixels.height) continue;  // before 2^10 rows of 2^20 pixels fill a counter
        for (auto& part : counts) {
            for (std::size_t value = 0; value < 256; ++value) histogram[value] += part[value];
            part.fill(0);
        }
    }
    return histogram;
}

std::int32_t rounded_mean_luma(const PlanarImageView& pixels) noexcept {
    std::uint64_t sum = 0;
    for (std::int32_t y = 0; y < pixels.height; ++y) {
        const std::uint8_t* red = pixels.row(0, y);
        const std::uint8_t* green = pixels.row(1, y);
        const std::uint8_t* blue = pixels.row(2, y);
        std::uint32_t row_sum = 0;  // 2^20 columns fit
        for (std::int32_t x = 0; x < pixels.width; ++x) row_sum += luma(red[x], green[x], blue[x]);
        sum += row_sum;
    }
    const double count = static_cast<double>(pixels.width) * pixels.height;
    return static_cast<std::int32_t>(static_cast<double>(sum) / count + 0.5);
}

struct Extremes {
    std::uint8_t lowest = 255;
    std::uint8_t highest = 0;
};

Extremes find_extremes(const PlanarImageView& pixels, int plane) noexcept {
    Extremes found;
    for (std::int32_t y = 0; y < pixels.height; ++y) {
        const std::uint8_t* row = pixels.row(plane, y);
        std::uint8_t lowest = 255;
        std::uint8_t highest = 0;
        for (std::int32_t x = 0; x < pixels.width; ++x) {
            lowest = std::min(lowest, row[x]);
            highest = std::max(highest, row[x]);
        }
        found = {std::min(found.lowest, lowest), std::max(found.highest, highest)};
    }
    return found;
}

// `histogram` has at least one pixel. False if there is nothing to even out.
bool make_equalizing_table(const Histogram& histogram, Table* table) noexcept {
    const auto last =
        std::find_if(histogram.rbegin(), histogram.rend(), [](std::uint64_t count) { return count != 0; });
    const std::uint64_t total = std::accumulate(histogram.begin(), histogram.end(), std::uint64_t{0});
    const std::uint64_t step = (total - *last) / 255;
    if (step == 0) return false;
    std::uint64_t below = step / 2;
    for (std::size_t value = 0; value < 256; ++value) {
        // Small images exceed 255, and Pillow clips tables.
        (*table)[value] = static_cast<std::uint8_t>(std::min<std::uint64_t>(below / step, 255));
        below += histogram[value];
    }
    return true;
}

}  // namespace

void Brightness::change(const PlanarImageView& pixels) const noexcept {
    const auto blend_factor = static_cast<float>(factor);
    map_values(make_table([&](std::int32_t value) { return blend(0, value, blend_factor); }), pixels);
}

void Contrast::change(const PlanarImageView& pixels) const noexcept {
    const auto blend_factor = static_cast<float>(factor);
    const std::int32_t mean = rounded_mean_luma(pixels);
    map_values(make_table([&](std::int32_t value) { return blend(mean, value, blend_factor); }), pixels);
}

std::string Posterize::check() const { return bits >= 1 && bits <= 8 ? "" : sentence("bits", "in 1..8", bits); }

void Posterize::change(const PlanarImageView& pixels) const noexcept {
    const std::int32_t mask = ~((1 << (8 - bits)) - 1);
    map_values(make_table([&](std::int32_t value) { return value & mask; }), pixels);
}

std::string Solarize::check() const {
    return std::isnan(threshold) ? sentence("threshold", "a number", threshold) : "";
}

void Solarize::change(const PlanarImageView& pixels) const noexcept {
    map_values(make_table([&](std::int32_t value) { return value < threshold ? value : 255 - value; }), pixels);
}

std::string PointTable::check() const {
    return table.size() == 3 * Table().size() ? "" : sentence("table", "768 bytes", table.size());
}

void PointTable::change(const PlanarImageView& pixels) const noexcept {
    for (int plane = 0; plane < 3; ++plane) {
        Table of_plane;
        std::memcpy(of_plane.data(), table.data() + static_cast<std::size_t>(plane) * of_plane.size(), of_plane.size());
        map_values(of_plane, pixels, plane);
    }
}

OperationReport PointTable::report() const {
    return {"point", ByteSpan(reinterpret_cast<const std::uint8_t*>(table.data()), table.size())};
}

void Invert::change(const PlanarImageView& pixels) const noexcept {
    map_values(make_table([](std::int32_t value) { return 255 - value; }), pixels);
}

void Autocontrast::change(const PlanarImageView& pixels) const noexcept {
    for (int plane = 0; plane < 3; ++plane) {
        const Extremes range = find_extremes(pixels, plane);
        if (range.highest <= range.lowest) continue;
        const double scale = 255.0 / (range.highest - range.lowest);
        const double offset = -range.lowest * scale;
        const auto stretch = [&](std::int32_t value) {
            return std::clamp(static_cast<std::int32_t>(value * scale + offset), 0, 255);
        };
        map_values(make_table(stretch), pixels, plane);
    }
}

void Equalize::change(const PlanarImageView& pixels) const noexcept {
    for (int plane = 0; plane < 3; ++plane) {
        Table table;
        if (make_equalizing_table(count_values(pixels, plane), &table)) map_values(table, pixels, plane);
    }
}

}  // namespace fastload
