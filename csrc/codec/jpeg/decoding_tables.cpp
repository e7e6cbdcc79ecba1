#include "codec/jpeg/decoding_tables.h"

#include <cstring>

namespace fastload::jpeg {
namespace {

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

}  // namespace fastload::jpeg
