// What is kept of decoded images: in the memory of the process, or in a store on disk.
#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/content_hash.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "bindings/without_gil.h"
#include "engine/cache/decode_cache.h"
#include "engine/cache/file_record_cache.h"
#include "engine/cache/index_record.h"
#include "engine/cache/process_index_table.h"
#include "engine/cache/record_kinds.h"
#include "engine/cache/record_store.h"
#include "engine/cache/store_report.h"
#include "engine/fork_guard.h"
#include "engine/sample/coefficient_builder.h"
#include "engine/sample/index_builder.h"
#include "engine/sample/pixel_builder.h"
#include "kernels/dispatch.h"

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
    if (key == nullptr) return nullptr;
    // The table is there until the process ends.
    const std::shared_ptr<IndexRecords> table(&process_table(), [](IndexRecords*) {});
    return std::make_shared<DecodeCache>(*key, table, expected_samples);
}

[[noreturn]] void throw_os_error(int error) {
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
}

py::bytes random_store_key() {
    HashKey key;
    if (const Status status = HashKey::random(&key); !status.is_ok()) throw_os_error(status.system_errno);
    return {reinterpret_cast<const char*>(key.words.data()), sizeof key.words};
}

// In a process forked since it is leaked, see Note [after fork].
struct StoreDelete {
    std::uint32_t generation = fork_generation();

    void operator()(RecordStore* store) const noexcept {
        if (generation == fork_generation()) {
            delete store;
        } else {
            store->close_after_fork();
        }
    }
};

KindRules rules_of(const std::string& kind, std::uint64_t max_bytes) {
    for (const KindRules& rules : {index_rules(), coefficient_rules(max_bytes), pixel_rules(max_bytes)}) {
        if (kind == record_kind_name(rules.kind)) return rules;
    }
    throw py::value_error("no kind of records is called " + kind);
}

// `max_file_bytes`: 0 for what the kind has.
std::shared_ptr<RecordStore> open_store(int folder, const py::bytes& key, std::uint64_t max_bytes, bool is_shared,
                                        bool may_write, const std::string& kind, std::uint64_t max_file_bytes) {
    KindRules rules = rules_of(kind, max_bytes);
    if (max_file_bytes != 0) rules.max_file_bytes = max_file_bytes;
    UniqueFd own(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
    if (!own.is_open()) throw_os_error(errno);
    const std::shared_ptr<RecordStore> store(
        new RecordStore(std::move(own), hash_key_of(key), rules, max_bytes, is_shared, may_write), StoreDelete());
    if (const int error = without_gil([&store] { return store->open(); }); error != 0) throw_os_error(error);
    return store;
}

void run_store(const std::shared_ptr<RecordStore>& store) {
    without_gil([&store] {
        store->run();
        return 0;
    });
}

bool flush_store(const std::shared_ptr<RecordStore>& store, double timeout_seconds) {
    const std::chrono::milliseconds timeout(static_cast<std::int64_t>(timeout_seconds * 1000));
    return without_gil([&] { return store->flush(timeout); });
}

std::shared_ptr<DecodeCache> make_store_cache(const std::shared_ptr<RecordStore>& store, std::uint64_t expected_samples,
                                              std::shared_ptr<FileRecordCache> files) {
    return std::make_shared<DecodeCache>(store->key(), store, expected_samples, std::move(files));
}

std::shared_ptr<FileRecordCache> make_file_record_cache(std::shared_ptr<RecordStore> store,
                                                        const std::string& validation, std::uint32_t check_interval,
                                                        std::int64_t clock_ahead_ns) {
    constexpr std::pair<const char*, Validation> kNames[] = {
        {"stat", Validation::kStat}, {"content", Validation::kContent}, {"trust", Validation::kTrust}};
    for (const auto& [name, value] : kNames) {
        if (validation == name)
            return std::make_shared<FileRecordCache>(std::move(store), value, check_interval, clock_ahead_ns);
    }
    throw py::value_error("no validation is called " + validation);
}

py::dict counters_of_files(const FileRecordCache& cache) {
    const FileRecordCounters counters = cache.counters();
    py::dict result;
    result["hits"] = counters.hits;
    result["misses"] = counters.misses;
    result["stale"] = counters.stale;
    result["damaged"] = counters.damaged;
    result["kept"] = counters.kept;
    result["dropped"] = counters.dropped;
    result["checks"] = counters.checks;
    result["mismatches"] = counters.mismatches;
    return result;
}

// Seconds an image by its record, and by its file; None while records are not slower.
py::object slow_pace_of(const FileRecordCache& cache) {
    if (!cache.pace().is_slower()) return py::none();
    const PaceFigures figures = cache.pace().figures();
    return py::make_tuple(figures.hit_ns * 1e-9, figures.file_ns * 1e-9);
}

py::dict counters_of_store(const RecordStore& store) {
    const StoreCounters counters = store.counters();
    py::dict result;
    result["records"] = counters.records;
    result["memory_bytes"] = counters.memory_bytes;
    result["used_bytes"] = store.used_bytes();
    result["bytes_read"] = counters.bytes_read;
    result["bytes_written"] = counters.bytes_written;
    result["damaged"] = counters.damaged;
    result["write_error"] = counters.write_error;
    result["read_error"] = counters.read_error;
    return result;
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

const char* verdict_name(RecordFileVerdict verdict) noexcept {
    switch (verdict) {
        case RecordFileVerdict::kGood:
            return "good";
        case RecordFileVerdict::kForeign:
            return "foreign";
        case RecordFileVerdict::kUntrusted:
            return "untrusted";
        case RecordFileVerdict::kFailed:
            break;
    }
    return "failed";
}

py::list report_of_store(const std::shared_ptr<RecordStore>& store, bool reads_records) {
    std::vector<StoreFileReport> files;
    const auto is_whole = [&store](const ContentKey& key, ByteSpan record) {
        ByteSpan packed;
        return store->place().kind == RecordKind::kIndex
                   ? open_index_record(store->key(), key, record, &packed)
                   : is_whole_file_record(store->place().kind, store->key(), key, record);
    };
    const RecordCheck check = reads_records ? RecordCheck(is_whole) : RecordCheck();
    if (const int error = without_gil([&] { return report_store(store->place(), check, &files); }); error != 0) {
        throw_os_error(error);
    }
    py::list result;
    for (const StoreFileReport& file : files) {
        py::dict row;
        row["name"] = file.name;
        row["verdict"] = verdict_name(file.verdict);
        row["error"] = file.error;
        row["has_writer"] = file.has_writer;
        row["records"] = file.records;
        row["live_records"] = file.live_records;
        row["live_bytes"] = file.live_bytes;
        row["dead_bytes"] = file.dead_bytes;
        row["file_bytes"] = file.file_bytes;
        row["damaged"] = file.damaged;
        result.append(row);
    }
    return result;
}

const char* outcome_name(BuildOutcome outcome) noexcept {
    switch (outcome) {
        case BuildOutcome::kKept:
            return "kept";
        case BuildOutcome::kKnown:
            return "known";
        case BuildOutcome::kNotKept:
            return "not kept";
        case BuildOutcome::kNone:
            return "none";
        case BuildOutcome::kTooNew:
            return "too new";
        case BuildOutcome::kAbsent:
            return "absent";
        case BuildOutcome::kDifferent:
            return "different";
        case BuildOutcome::kUnread:
            break;
    }
    return "unread";
}

template <typename Builder, typename... Others>
std::unique_ptr<Builder> make_builder(std::shared_ptr<DecodeCache> cache, std::uint64_t max_file_bytes,
                                      std::int64_t max_pixels, const Others&... others) {
    NativeWorkerOptions options;
    options.decode_limits.max_pixels = max_pixels;
    options.max_file_bytes = max_file_bytes;
    options.cache = std::move(cache);
    return std::make_unique<Builder>(*select_kernel_table(), options, others...);
}

template <typename Builder, Status (Builder::*kWork)(ByteSpan, BuildOutcome*) noexcept>
const char* run_builder(Builder& builder, const py::bytes& path) {
    const ByteSpan name = span_of(path);
    BuildOutcome outcome = BuildOutcome::kUnread;
    const Status status = without_gil([&] { return (builder.*kWork)(name, &outcome); });
    if (status.code == StatusCode::kOutOfMemory) throw std::bad_alloc();
    return outcome_name(outcome);
}

// `Others` is what it needs besides, by the names `others`.
template <typename Builder, typename... Others, typename... Names>
void bind_builder(py::module_& m, const char* name, Names... others) {
    Class<Builder>(m, name)
        .def(py::init(&make_builder<Builder, Others...>), py::arg("cache"), py::arg("max_file_bytes"),
             py::arg("max_pixels"), others...)
        .def("build", &run_builder<Builder, &Builder::build>, py::arg("path"))
        .def("compare", &run_builder<Builder, &Builder::compare>, py::arg("path"));
}

}  // namespace

std::unique_ptr<const HashKey> hash_key_of(const py::bytes& key) {
    auto words = std::make_unique<HashKey>();
    const ByteSpan given = span_of(key);
    if (given.size() != sizeof words->words) throw std::invalid_argument("a store's key has another length");
    std::memcpy(words->words.data(), given.data(), given.size());
    return words;
}

void bind_cache(py::module_& m) {
    Class<DecodeCache, std::shared_ptr<DecodeCache>>(m, "DecodeCache")
        .def("counters", &counters_of)
        .def("key_of", &key_of, py::arg("contents"))
        .def_property_readonly("is_worth_it", &DecodeCache::is_worth_it);
    Class<RecordStore, std::shared_ptr<RecordStore>>(m, "RecordStore")
        .def("run", &run_store)
        .def("close", &RecordStore::close)
        .def("close_after_fork", &RecordStore::close_after_fork)
        .def("begin_epoch", &RecordStore::begin_epoch)
        .def("end_epoch", &RecordStore::end_epoch)
        .def("flush", &flush_store, py::arg("timeout_seconds"))
        .def("counters", &counters_of_store)
        .def("report", &report_of_store, py::arg("reads_records"))
        .def("make_decode_cache", &make_store_cache, py::arg("expected_samples"), py::arg("files") = nullptr);
    Class<FileRecordCache, std::shared_ptr<FileRecordCache>>(m, "FileRecordCache")
        .def(py::init(&make_file_record_cache), py::arg("store"), py::arg("validation"), py::arg("check_interval"),
             py::arg("clock_ahead_ns") = 0)
        .def("counters", &counters_of_files)
        .def("begin_epoch", [](FileRecordCache& cache) { cache.pace().begin_epoch(); })
        .def_property_readonly("slow_pace", &slow_pace_of)
        .def_property_readonly("is_on", &FileRecordCache::is_on)
        .def_property_readonly("mismatched_path",
                               [](const FileRecordCache& cache) { return py::bytes(cache.mismatched_path()); });
    bind_builder<IndexBuilder>(m, "IndexBuilder");
    bind_builder<CoefficientBuilder>(m, "CoefficientBuilder");
    bind_builder<PixelBuilder, std::shared_ptr<FirstSteps>>(m, "PixelBuilder", py::arg("first_steps"));
    m.def("open_record_store", &open_store, py::arg("folder"), py::arg("key"), py::arg("max_bytes"),
          py::arg("is_shared"), py::arg("may_write"), py::arg("kind") = "index", py::arg("max_file_bytes") = 0);
    m.def("random_store_key", &random_store_key);
    m.attr("STORE_KEY_BYTES") = sizeof HashKey::words;
    m.def("make_decode_cache", &make_cache, py::arg("expected_samples"));
    m.def("set_index_memory", &set_process_index_bytes, py::arg("max_bytes"),
          "How large the indexes of this process may become. False, and nothing is changed, where there are some "
          "already.");
    m.def("index_memory", &index_memory);
    m.def("clear_index_memory", [] { process_table().clear(); });
}

}  // namespace fastload
