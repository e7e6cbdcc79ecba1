#include "codec/jpeg/decoding_tables.h"

#include <cstring>

namespace fastload::jpeg {
namespace {

// Magnitude bits of an AC coefficient that fits 16 bits with its sign.
constexpr int kMaxCoefficientBits = 15;

Status unusual_ac(const Scan& scan) noexcept {
    return Status::irregular("an AC Huffman table that is missing or not usual", scan.data_offset);
}

bool is_same(const HuffmanSpec& a, const HuffmanSpec& b) {
    return a.is_defined && std::memcmp(a.code_counts, b.code_counts, sizeof(a.code_counts)) == 0 &&
           std::memcmp(a.symbols, b.symbols, sizeof(a.symbols)) == 0;
}

}  // namespace

template <typename Table>
const Table* CachedTable<Table>::match(const HuffmanSpec& spec) noexcept {
    if (!spec.is_defined) return nullptr;
    if (is_same(built_, spec)) return &table_;
    built_ = HuffmanSpec{};
    if (!table_.build(spec)) return nullptr;
    built_ = spec;
    return &table_;
}

template class CachedTable<DcTable>;
template class CachedTable<AcTable>;
template class CachedTable<BandTable>;

Status DecodingTables::match(const Frame& frame, const Scan& scan, const Tables& tables) noexcept {
    if (!scan.is_dc()) return match_band(scan, tables);
    if (scan.is_refinement()) return Status::ok();
    if (const Status status = match_sequential(scan, tables); !status.is_ok()) return status;
    for (int i = 0; i < scan.component_count; ++i) {
        const int slot = frame.components[scan.components[i].component].quantization_slot;
        if (!tables.quantization[slot].is_defined) {
            return Status::irregular("a quantization table is missing", scan.data_offset);
        }
    }
    return Status::ok();
}

// Matches the tables of a scan that begins with DC coefficients, for the first time.
Status DecodingTables::match_sequential(const Scan& scan, const Tables& tables) noexcept {
    for (int i = 0; i < scan.component_count; ++i) {
        const ScanComponent& component = scan.components[i];
        if (dc[component.dc_slot].match(tables.dc[component.dc_slot]) == nullptr) {
            return Status::irregular("a DC Huffman table that is missing or not usual", scan.data_offset);
        }
        if (scan.spectral_end == 0) continue;
        if (ac[component.ac_slot].match(tables.ac[component.ac_slot]) == nullptr) return unusual_ac(scan);
    }
    return Status::ok();
}

Status DecodingTables::match_band(const Scan& scan, const Tables& tables) noexcept {
    const int slot = scan.components[0].ac_slot;
    const BandTable* const table = band[slot].match(tables.ac[slot]);
    if (table == nullptr) return unusual_ac(scan);
    if (!scan.is_refinement() && table->largest_size + scan.approximation_low > kMaxCoefficientBits) {
        return Status::irregular("an AC Huffman table with coefficients out of range", scan.data_offset);
    }
    return Status::ok();
}

}  // namespace fastload::jpeg
