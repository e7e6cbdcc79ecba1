// The records of decoded images: in the memory of the process, or in a store on disk.
#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/content_hash.h"
#include "base/enum_names.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "engine/cache/built_records.h"
#include "engine/cache/decode_cache.h"
#include "engine/cache/file_record_cache.h"
#include "engine/cache/index_records.h"
#include "engine/cache/index_table.h"
#include "engine/cache/record_build.h"
#include "engine/cache/record_store.h"
#include "engine/cache/store_report.h"
#include "engine/fork_guard.h"
#include "engine/sample/record_builder.h"
#include "kernels/dispatch.h"
#include "python/without_gil.h"

namespace py = pybind11;

namespace fastload {

template <>
struct EnumNames<RecordFileVerdict> {
    static constexpr std::pair<const char*, RecordFileVerdict> kNames[] = {
        {"good", RecordFileVerdict::kGood},
        {"foreign", RecordFileVerdict::kForeign},
        {"untrusted", RecordFileVerdict::kUntrusted},
        {"failed", RecordFileVerdict::kFailed},
    };
};

template <>
struct EnumNames<BuildOutcome> {
    static constexpr std::pair<const char*, BuildOutcome> kNames[] = {
        {"kept", BuildOutcome::kKept},           {"known", BuildOutcome::kKnown},
        {"not kept", BuildOutcome::kNotKept},    {"none", BuildOutcome::kNone},
        {"too new", BuildOutcome::kTooNew},      {"absent", BuildOutcome::kAbsent},
        {"different", BuildOutcome::kDifferent}, {"unread", BuildOutcome::kUnread},
    };
};

namespace {

// The key of this process and those forked from it. With a known key somebody could make files that get each other's
// records.
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

struct Number {
    template <typename Integer>
    Number(Integer number) noexcept : value(static_cast<std::int64_t>(number)) {}  // implicit: to_dict() takes any
    std::int64_t value;
};

py::dict to_dict(std::initializer_list<std::pair<const char*, Number>> fields) {
    py::dict result;
    for (const auto& [name, number] : fields) result[name] = number.value;
    return result;
}

py::bytes random_store_key() {
    HashKey key;
    if (const Status status = HashKey::random(&key); !status.is_ok()) throw_os_error(status.system_errno);
    return {reinterpret_cast<const char*>(key.words.data()), sizeof key.words};
}

// In a process forked since then the store is leaked, see Note [after fork].
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

RecordKind kind_of(const std::string& name) {
    for (const RecordKind kind : {RecordKind::kIndex, RecordKind::kCoefficients, RecordKind::kPixels}) {
        if (name == record_kind_name(kind)) return kind;
    }
    throw py::value_error("no kind of records is called " + name);
}

UniqueFd duplicate(int folder) {
    UniqueFd own(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
    if (!own.is_open()) throw_os_error(errno);
    return own;
}

std::shared_ptr<RecordStore> open_store(int folder, const py::bytes& key, std::uint64_t max_bytes, bool may_write) {
    const std::shared_ptr<RecordStore> store(new RecordStore(duplicate(folder), hash_key_of(key), max_bytes, may_write),
                                             StoreDelete());
    if (const int error = without_gil([&store] { return store->open(); }); error != 0) throw_os_error(error);
    return store;
}

std::shared_ptr<BuiltRecords> open_built_records(int folder, const py::bytes& key, const std::string& kind) {
    auto records = std::make_shared<BuiltRecords>(duplicate(folder), hash_key_of(key), kind_of(kind));
    if (const int error = without_gil([&records] { return records->open(); }); error != 0) throw_os_error(error);
    return records;
}

std::shared_ptr<RecordBuild> begin_build(std::shared_ptr<BuiltRecords> records, std::uint64_t max_bytes) {
    return without_gil([&] { return std::make_shared<RecordBuild>(std::move(records), max_bytes); });
}

bool flush_store(const std::shared_ptr<RecordStore>& store, double timeout_seconds) {
    const std::chrono::milliseconds timeout(static_cast<std::int64_t>(timeout_seconds * 1000));
    return without_gil([&] { return store->flush(timeout); });
}

std::shared_ptr<DecodeCache> make_store_cache(const std::shared_ptr<RecordStore>& store, std::uint64_t expected_samples,
                                              std::shared_ptr<FileRecordCache> files) {
    return std::make_shared<DecodeCache>(store->key(), store, expected_samples, std::move(files));
}

std::shared_ptr<FileRecordCache> make_file_record_cache(std::shared_ptr<BuiltRecords> records,
                                                        const std::string& validation, std::uint32_t check_interval) {
    if (validation != "stat" && validation != "content") {
        throw py::value_error("no validation is called " + validation);
    }
    const Validation value = validation == "stat" ? Validation::kStat : Validation::kContent;
    return std::make_shared<FileRecordCache>(std::move(records), value, check_interval);
}

py::dict counters_of_files(const FileRecordCache& cache) {
    const FileRecordCounters counters = cache.counters();
    return to_dict({{"hits", counters.hits},
                    {"stale", counters.stale},
                    {"damaged", counters.damaged},
                    {"checks", counters.checks},
                    {"mismatches", counters.mismatches}});
}

py::dict counters_of_built(const BuiltRecords& records) {
    const ReadCounters counters = records.counters();
    return to_dict({{"records", counters.records},
                    {"memory_bytes", counters.memory_bytes},
                    {"bytes_read", counters.bytes_read},
                    {"damaged", counters.damaged},
                    {"read_error", counters.read_error}});
}

py::dict counters_of_store(const RecordStore& store) {
    const StoreCounters counters = store.counters();
    return to_dict({{"records", counters.records},
                    {"memory_bytes", counters.memory_bytes},
                    {"bytes_read", counters.bytes_read},
                    {"bytes_written", counters.bytes_written},
                    {"records_published", counters.records_published},
                    {"damaged", counters.damaged},
                    {"write_error", counters.write_error},
                    {"read_error", counters.read_error}});
}

py::dict counters_of(const DecodeCache& cache) {
    const CacheCounters counters = cache.counters();
    return to_dict({{"cache_hits", counters.hits},
                    {"cache_misses", counters.misses},
                    {"cache_mismatches", counters.mismatches},
                    {"cache_dropped", counters.dropped}});
}

py::tuple key_of(const DecodeCache& cache, const py::bytes& contents) {
    const ContentKey key = cache.key_of(span_of(contents));
    return py::make_tuple(key.hash.low, key.hash.high, key.length);
}

py::dict index_memory() {
    const IndexTable::Counts counts = process_table().counts();
    return to_dict(
        {{"records", counts.records}, {"record_bytes", counts.record_bytes}, {"memory_bytes", counts.memory_bytes}});
}

py::list report_records(int folder, const py::bytes& key_bytes, const std::string& kind_name, bool reads_records) {
    const std::unique_ptr<const HashKey> key = hash_key_of(key_bytes);
    const StorePlace place = {folder, kind_of(kind_name), key.get(), 0};
    const auto is_whole = [&](const ContentKey& record_key, ByteSpan record) {
        ByteSpan packed;
        return place.kind == RecordKind::kIndex ? open_index_record(*key, record_key, record, &packed)
                                                : is_whole_file_record(place.kind, *key, record_key, record);
    };
    const RecordCheck check = reads_records ? RecordCheck(is_whole) : RecordCheck();
    std::vector<StoreFileReport> files;
    if (const int error = without_gil([&] { return report_store(place, check, &files); }); error != 0) {
        throw_os_error(error);
    }
    py::list result;
    for (const StoreFileReport& file : files) {
        py::dict row = to_dict({{"error", file.error},
                                {"records", file.records},
                                {"live_records", file.live_records},
                                {"live_bytes", file.live_bytes},
                                {"dead_bytes", file.dead_bytes},
                                {"file_bytes", file.file_bytes},
                                {"damaged", file.damaged}});
        row["name"] = file.name;
        row["verdict"] = name_of(file.verdict);
        row["has_writer"] = file.has_writer;
        result.append(row);
    }
    return result;
}

std::unique_ptr<RecordBuilder> index_builder(std::shared_ptr<DecodeCache> cache, std::uint64_t max_file_bytes,
                                             std::uint64_t max_pixels) {
    return make_index_builder(*select_kernel_table(), options_of(max_file_bytes, max_pixels, true, std::move(cache)));
}

std::unique_ptr<RecordBuilder> file_record_builder(std::shared_ptr<BuiltRecords> records,
                                                   std::shared_ptr<RecordBuild> build,
                                                   std::shared_ptr<FirstSteps> first_steps,
                                                   std::uint64_t max_file_bytes, std::uint64_t max_pixels,
                                                   bool is_native_jpeg_allowed, std::int64_t clock_ahead_ns) {
    if ((records->kind() == RecordKind::kPixels) != (first_steps != nullptr)) {
        throw py::value_error("first_steps go with pixels, and with nothing else");
    }
    return make_file_record_builder(*select_kernel_table(),
                                    options_of(max_file_bytes, max_pixels, is_native_jpeg_allowed),
                                    {std::move(records), std::move(build), std::move(first_steps), clock_ahead_ns});
}

template <typename Work>
const char* outcome_of(const Work& work) {
    BuildOutcome outcome = BuildOutcome::kUnread;
    const Status status = without_gil([&] { return work(&outcome); });
    if (status.code == StatusCode::kOutOfMemory) throw std::bad_alloc();
    return name_of(outcome);
}

template <Status (RecordBuilder::*kWork)(ByteSpan, BuildOutcome*) noexcept>
const char* run_with_file(RecordBuilder& builder, const py::bytes& path) {
    const ByteSpan name = span_of(path);
    return outcome_of([&](BuildOutcome* outcome) { return (builder.*kWork)(name, outcome); });
}

template <Status (RecordBuilder::*kWork)(const PackedImageView&, BuildOutcome*) noexcept>
const char* run_with_pixels(RecordBuilder& builder, const py::buffer& pixels, std::int32_t width, std::int32_t height) {
    const PackedImageView rgb = view_packed(pixels, width, height);
    return outcome_of([&](BuildOutcome* outcome) { return (builder.*kWork)(rgb, outcome); });
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
        .def("run", [](RecordStore& store) { without_gil([&] { store.run(); }); })
        .def("close", &RecordStore::close)
        .def("close_after_fork", &RecordStore::close_after_fork)
        .def("begin_epoch", &RecordStore::begin_epoch)
        .def("end_epoch", &RecordStore::end_epoch)
        .def("flush", &flush_store, py::arg("timeout_seconds"))
        .def("counters", &counters_of_store)
        .def("make_decode_cache", &make_store_cache, py::arg("expected_samples"), py::arg("files") = nullptr);
    Class<BuiltRecords, std::shared_ptr<BuiltRecords>>(m, "BuiltRecords")
        .def("is_current", &BuiltRecords::is_current)
        .def("counters", &counters_of_built);
    Class<RecordBuild, std::shared_ptr<RecordBuild>>(m, "RecordBuild")
        .def("finish", [](RecordBuild& build) { without_gil([&] { build.finish(); }); })
        .def_property_readonly("error", &RecordBuild::error)
        .def_property_readonly("num_records", &RecordBuild::num_records);
    Class<FileRecordCache, std::shared_ptr<FileRecordCache>>(m, "FileRecordCache")
        .def(py::init(&make_file_record_cache), py::arg("records"), py::arg("validation"), py::arg("check_interval"))
        .def("counters", &counters_of_files)
        .def("stop", &FileRecordCache::stop)
        .def_property_readonly("is_on", &FileRecordCache::is_on)
        .def_property_readonly("mismatched_path",
                               [](const FileRecordCache& cache) { return py::bytes(cache.mismatched_path()); });
    Class<RecordBuilder>(m, "RecordBuilder")
        .def("build", &run_with_file<&RecordBuilder::build>, py::arg("path"))
        .def("build_with_pixels", &run_with_pixels<&RecordBuilder::build_with_pixels>, py::arg("pixels"),
             py::arg("width"), py::arg("height"))
        .def("compare", &run_with_file<&RecordBuilder::compare>, py::arg("path"))
        .def("compare_with_pixels", &run_with_pixels<&RecordBuilder::compare_with_pixels>, py::arg("pixels"),
             py::arg("width"), py::arg("height"));
    m.def("make_index_builder", &index_builder, py::arg("cache"), py::arg("max_file_bytes"), py::arg("max_pixels"));
    m.def("make_file_record_builder", &file_record_builder, py::arg("records"), py::arg("build"),
          py::arg("first_steps"), py::arg("max_file_bytes"), py::arg("max_pixels"), py::arg("native_jpeg"),
          py::arg("clock_ahead_ns") = 0);
    m.def("open_record_store", &open_store, py::arg("folder"), py::arg("key"), py::arg("max_bytes"),
          py::arg("may_write"));
    m.def("open_built_records", &open_built_records, py::arg("folder"), py::arg("key"), py::arg("kind"));
    m.def("begin_build", &begin_build, py::arg("records"), py::arg("max_bytes"));
    m.def("report_records", &report_records, py::arg("folder"), py::arg("key"), py::arg("kind"),
          py::arg("reads_records"));
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
