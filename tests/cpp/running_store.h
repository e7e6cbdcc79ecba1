// Stores that work, as a process has them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/cache/record_appender.h"
#include "engine/cache/record_kinds.h"
#include "engine/cache/record_store.h"
#include "record_folders.h"

namespace fastload::testing {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct StoreSettings {
    std::uint64_t max_bytes = 64 * kMiB;
    std::uint64_t max_file_bytes = 0;  // 0: the kind's own
    bool may_write = true;
};

inline UniqueFd duplicate(const RecordFolder& folder) {
    return UniqueFd(::fcntl(folder.descriptor(), F_DUPFD_CLOEXEC, 0));
}

inline std::unique_ptr<RecordStore> make_store(const RecordFolder& folder, const StoreSettings& settings = {}) {
    return std::make_unique<RecordStore>(duplicate(folder), std::make_unique<const HashKey>(store_key()),
                                         settings.max_bytes, settings.may_write, settings.max_file_bytes);
}

inline bool put(RecordStore* store, std::uint64_t number, std::size_t size, std::uint32_t rank = 0) {
    return store->put(content_key(number), rank, view_of(record_bytes(number + 1000 * rank, size)));
}

// The record of a number; empty where there is none.
inline RecordBytes found(const RecordStore& store, std::uint64_t number) {
    RecordBytes buffer(IndexRecords::kMaxRecordBytes);
    buffer.resize(store.find(content_key(number), {buffer.data(), buffer.size()}));
    return buffer;
}

inline bool has(const RecordStore& store, std::uint64_t number, std::size_t size, std::uint32_t rank = 0) {
    return found(store, number) == record_bytes(number + 1000 * rank, size);
}

// Whether a process that comes now finds all of the records of the numbers [0, count).
inline bool all_are_found_anew(const RecordFolder& folder, std::uint64_t count, std::size_t size) {
    const auto store = make_store(folder);
    CHECK_EQUAL(store->open(), 0);
    for (std::uint64_t i = 0; i < count; ++i) {
        if (!has(*store, i, size)) return false;
    }
    return true;
}

// A store with its thread, in which `work` is done: run(), unless it is something around that.
class RunningStore {
  public:
    using Work = std::function<void(RecordStore*)>;

    explicit RunningStore(
        const RecordFolder& folder, const StoreSettings& settings = {},
        Work work = [](RecordStore* store) { store->run(); })
        : store_(make_store(folder, settings)) {
        CHECK_EQUAL(store_->open(), 0);
        thread_ = std::thread([this, work = std::move(work)] { work(store_.get()); });
    }
    RunningStore(const RunningStore&) = delete;  // its thread has its address
    RunningStore& operator=(const RunningStore&) = delete;
    ~RunningStore() { close(); }

    void close() {
        if (!thread_.joinable()) return;
        store_->close();
        thread_.join();
    }
    // All that was kept is published, and what others have published is known.
    void flush() { CHECK(store_->flush(std::chrono::seconds(20))); }

    RecordStore* get() { return store_.get(); }
    RecordStore* operator->() { return store_.get(); }
    RecordStore& operator*() { return *store_; }

  private:
    std::unique_ptr<RecordStore> store_;
    std::thread thread_;
};

// The bytes on disk of all files of a folder.
inline std::uint64_t blocks_bytes(const RecordFolder& folder) {
    std::uint64_t sum = 0;
    for (const std::string& name : folder.names()) {
        struct stat facts = {};
        if (::lstat(folder.path(name).c_str(), &facts) == 0) sum += static_cast<std::uint64_t>(facts.st_blocks) * 512;
    }
    return sum;
}

inline std::size_t count_names(const RecordFolder& folder, const std::string& ending) {
    std::size_t count = 0;
    for (const std::string& name : folder.names()) {
        if (name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending) ++count;
    }
    return count;
}

// Checks that only complete files and the lock are left.
inline void check_is_tidy(const RecordFolder& folder) {
    CHECK_EQUAL(count_names(folder, ".tmp"), 0U);
    CHECK_EQUAL(count_names(folder, ".dat"), count_names(folder, ".dir"));
}

inline StorePlace place_of(const RecordFolder& folder, const HashKey& key, std::uint64_t max_bytes = 64 * kMiB,
                           RecordKind kind = RecordKind::kIndex) {
    return {folder.descriptor(), kind, &key, max_bytes};
}

// Makes `count` files that have no writer any more, each with `per_file` records of the numbers from `first` on.
inline void fill_files(const RecordFolder& folder, std::size_t count, std::size_t per_file, std::size_t size,
                       std::uint64_t first = 0, RecordKind kind = RecordKind::kIndex) {
    const HashKey key = store_key();
    const StorePlace place = place_of(folder, key, 64 * kMiB, kind);
    std::vector<std::unique_ptr<RecordAppender>> appenders;  // at once: the next one would go on with a file that ended
    for (std::size_t i = 0; i < count; ++i) {
        appenders.push_back(std::make_unique<RecordAppender>(place, max_record_file_bytes(kind, place.max_bytes)));
        for (std::size_t j = 0; j < per_file; ++j) {
            const std::uint64_t number = first + i * per_file + j;
            CHECK_EQUAL(appenders.back()->append(content_key(number), 0, view_of(record_bytes(number, size))), 0);
        }
        std::shared_ptr<const OpenedRecords> opened;
        CHECK_EQUAL(appenders.back()->publish(&opened), 0);
    }
}

}  // namespace fastload::testing
