#include "image/plan/normalization.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace fastload {
namespace {

constexpr int kValues = 256;
constexpr int kNeighbours = 3;  // number of float32 numbers on each side of an estimate that are tried

bool gives_all_entries(const Normalization& formula, const float* table) noexcept {
    for (int value = 0; value < kValues; ++value) {
        const float result = formula.apply(static_cast<std::uint8_t>(value));
        if (std::memcmp(&result, table + value, sizeof result) != 0) return false;
    }
    return true;
}

// Fits a straight line to the entries by least squares: entry = slope * value + offset.
struct Line {
    double slope;
    double offset;

    explicit Line(const float* table) noexcept {
        constexpr double kMiddle = (kValues - 1) / 2.0;
        double sum = 0.0;
        double moment = 0.0;
        double squares = 0.0;
        for (int value = 0; value < kValues; ++value) {
            const double distance = value - kMiddle;
            sum += static_cast<double>(table[value]);
            moment += distance * static_cast<double>(table[value]);
            squares += distance * distance;
        }
        slope = moment / squares;
        offset = sum / kValues - slope * kMiddle;
    }
};

// The numbers around `estimate`, and 0 if it is close to 0: then it is only the rounding of the entries.
struct Candidates {
    float values[2 * kNeighbours + 2];
    int count = 0;

    explicit Candidates(double estimate) noexcept {
        if (std::fabs(estimate) < 1e-6) values[count++] = 0.0F;
        auto number = static_cast<float>(estimate);
        for (int i = 0; i < kNeighbours; ++i) number = std::nextafter(number, std::numeric_limits<float>::lowest());
        for (int i = 0; i <= 2 * kNeighbours; ++i) {
            values[count++] = number;
            number = std::nextafter(number, std::numeric_limits<float>::max());
        }
    }
};

bool find_normalization(const float* table, Normalization* found) noexcept {
    const Line line(table);
    if (!std::isnormal(line.slope) || !std::isfinite(line.offset)) return false;
    const double std_estimate = 1.0 / (255.0 * line.slope);
    const double mean_estimate = -line.offset * std_estimate;
    constexpr auto kLargest = static_cast<double>(Normalization::kLargest);
    const bool is_ordinary = std::fabs(std_estimate) > 1.0 / kLargest && std::fabs(std_estimate) < kLargest &&
                             std::fabs(mean_estimate) < kLargest;
    if (!is_ordinary) return false;
    const Candidates stds(std_estimate);
    const Candidates means(mean_estimate);
    for (int i = 0; i < stds.count; ++i) {
        const double inverse = static_cast<double>(Normalization::kUnit) / static_cast<double>(stds.values[i]);
        found->inverse_std = static_cast<float>(inverse);
        found->inverse_std_rest = static_cast<float>(inverse - static_cast<double>(found->inverse_std));
        for (int j = 0; j < means.count; ++j) {
            found->mean = means.values[j] / Normalization::kUnit;
            if (gives_all_entries(*found, table)) return true;
        }
    }
    return false;
}

}  // namespace

std::optional<Normalizations> find_normalizations(const void* table) noexcept {
    Normalizations found;
    float entries[kValues];
    for (int channel = 0; channel < 3; ++channel) {
        std::memcpy(entries, static_cast<const float*>(table) + kValues * channel, sizeof entries);
        if (!find_normalization(entries, &found.channels[channel])) return std::nullopt;
    }
    return found;
}

}  // namespace fastload
