// What a store does with records of each kind, see Note [kinds of records].
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cache/index_records.h"
#include "io/records/record_file.h"

namespace fastload {

// Note [kinds of records]
// Indexes are small, read as a whole, and come again as they learn more: closed files of them are merged, and of a
// growing file the directory must stay small. Coefficients and pixels are large, and written once for an image: nobody
// copies them again, so a file is large, and few are open.
// All kinds in a folder share its bytes, first come, first served, but none takes the last of them: indexes leave what
// merging copies, and coefficients and pixels, which fill any budget, leave what indexes of the images beyond it take,
// and their directories, which grow when they are published.

// Raised whenever what a decoder takes or what a record of the kind means changes.
constexpr std::uint32_t kIndexRevision = 2;
constexpr std::uint32_t kCoefficientRevision = 1;
constexpr std::uint32_t kPixelRevision = 1;

// What stays free of a store's bytes when records of a kind take more, as divisors; 0: nothing.
struct BudgetShares {
    std::uint64_t of_own = 0;     // what files of this kind take
    std::uint64_t of_others = 0;  // what all others take
    std::uint64_t of_all = 0;     // all of the store's bytes
};

constexpr std::uint64_t share_of(std::uint64_t bytes, std::uint64_t divisor) noexcept {
    return divisor == 0 ? 0 : bytes / divisor;
}

// Whether a kind may have `own_bytes` on disk where others have `other_bytes`.
constexpr bool is_within_budget(const BudgetShares& leaves, std::uint64_t max_bytes, std::uint64_t own_bytes,
                                std::uint64_t other_bytes) noexcept {
    const std::uint64_t left = std::max({share_of(own_bytes, leaves.of_own), share_of(other_bytes, leaves.of_others),
                                         share_of(max_bytes, leaves.of_all)});
    return own_bytes <= max_bytes && other_bytes <= max_bytes - own_bytes &&
           left <= max_bytes - own_bytes - other_bytes;
}

// What a kind may take where there is no other.
constexpr std::uint64_t budget_alone(const BudgetShares& leaves, std::uint64_t max_bytes) noexcept {
    const std::uint64_t of_own = leaves.of_own == 0 ? 0 : max_bytes / (leaves.of_own + 1);
    return max_bytes - std::max(of_own, share_of(max_bytes, leaves.of_all));
}

struct KindRules {
    RecordKind kind = RecordKind::kIndex;
    std::uint32_t decoder_revision = 0;
    std::uint32_t max_record_bytes = 0;
    std::size_t max_waiting_bytes = 0;  // of records that are not written yet
    std::uint64_t max_file_bytes = 0;   // a file is closed then
    bool merges_files = false;
    BudgetShares leaves;
};

constexpr KindRules index_rules() noexcept {
    return {RecordKind::kIndex,
            kIndexRevision,
            IndexRecords::kMaxRecordBytes,
            std::size_t{64} << 20,
            std::uint64_t{64} << 20,
            true,
            {7, 0, 0}};
}

// Of coefficients and of pixels, in a store of `max_bytes`.
constexpr KindRules image_rules(RecordKind kind, std::uint32_t decoder_revision, std::uint64_t max_bytes) noexcept {
    return {kind,
            decoder_revision,
            std::uint32_t{32} << 20,
            std::size_t{64} << 20,
            std::max(std::uint64_t{1} << 30, max_bytes / 128),
            false,
            {0, 3, 32}};
}

constexpr KindRules coefficient_rules(std::uint64_t max_bytes) noexcept {
    return image_rules(RecordKind::kCoefficients, kCoefficientRevision, max_bytes);
}

constexpr KindRules pixel_rules(std::uint64_t max_bytes) noexcept {
    return image_rules(RecordKind::kPixels, kPixelRevision, max_bytes);
}

}  // namespace fastload
