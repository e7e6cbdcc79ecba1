// What is kept of decoded images in the memory of the process.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "base/content_hash.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "engine/cache/decode_cache.h"
#include "engine/cache/process_index_table.h"

namespace py = pybind11;

namespace fastload {
namespace {

// Of this process and those forked from it; whoever knows it could make files that have each other's records.
const HashKey* process_hash_key() {
    static const std::unique_ptr<const HashKey> key = [] {
        auto made = std::make_unique<HashKey>();
        return HashKey::random(made.get()).is_ok() ? std::move(made) : nullptr;
    }();
    return key.get();
}

IndexTable& process_table() {
    IndexTable* const table = process_index_table();
    if (table == nullptr) throw std::bad_alloc();
    return *table;
}

// None where the system gives no random bytes for the key.
std::shared_ptr<DecodeCache> make_cache(std::uint64_t expected_samples) {
    const HashKey* const key = process_hash_key();
    return key == nullptr ? nullptr : std::make_shared<DecodeCache>(*key, process_table(), expected_samples);
}

py::dict counters_of(const DecodeCache& cache) {
    const CacheCounters counters = cache.counters();
    py::dict result;
    result["cache_hits"] = counters.hits;
    result["cache_misses"] = counters.misses;
    result["cache_mismatches"] = counters.mismatches;
    result["cache_dropped"] = counters.dropped;
    return result;
}

py::tuple key_of(const DecodeCache& cache, const py::bytes& contents) {
    const ContentKey key = cache.key_of(span_of(contents));
    return py::make_tuple(key.hash.low, key.hash.high, key.length);
}

py::dict index_memory() {
    const IndexTable::Counts counts = process_table().counts();
    py::dict result;
    result["records"] = counts.records;
    result["record_bytes"] = counts.record_bytes;
    result["memory_bytes"] = counts.memory_bytes;
    return result;
}

}  // namespace

void bind_cache(py::module_& m) {
    Class<DecodeCache, std::shared_ptr<DecodeCache>>(m, "DecodeCache")
        .def("counters", &counters_of)
        .def("key_of", &key_of, py::arg("contents"))
        .def_property_readonly("is_worth_it", &DecodeCache::is_worth_it);
    m.def("make_decode_cache", &make_cache, py::arg("expected_samples"));
    m.def("set_index_memory", &set_process_index_bytes, py::arg("max_bytes"),
          "How large the indexes of this process may become. False, and nothing is changed, where there are some "
          "already.");
    m.def("index_memory", &index_memory);
    m.def("clear_index_memory", [] { process_table().clear(); });
}

}  // namespace fastload
