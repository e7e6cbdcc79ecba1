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
    Status status;
    for (int i = 0; status.is_ok() && !scan.is_refinement() && i < scan.component_count; ++i) {
        status = match_component(frame, scan, scan.components[i], tables);
    }
    return status;
}

// Matches the tables of a component in a scan that begins with its DC coefficients, for the first time.
Status DecodingTables::match_component(const Frame& frame, const Scan& scan, const ScanComponent& component,
                                       const Tables& tables) noexcept {
    if (dc[component.dc_slot].match(tables.dc[component.dc_slot]) == nullptr) {
        return Status::irregular("a DC Huffman table that is missing or not usual", scan.data_offset);
    }
    const bool has_ac = scan.spectral_end != 0;
    if (has_ac && ac[component.ac_slot].match(tables.ac[component.ac_slot]) == nullptr) return unusual_ac(scan);
    const bool is_quantized = tables.quantization[frame.components[component.component].quantization_slot].is_defined;
    return is_quantized ? Status::ok() : Status::irregular("a quantization table is missing", scan.data_offset);
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
