#include "engine/cache/record_store.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "engine/cache/record_merge.h"
#include "io/records/record_folder.h"

namespace fastload {
namespace {

constexpr std::size_t kMaxClosedFiles = 8;
// The most bytes of records that wait to be written.
constexpr std::size_t kMaxWaitingBytes = std::size_t{64} << 20;
// From this many bytes on, the writing thread is woken.
constexpr std::size_t kManyWaitingBytes = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kWritingInterval{500};
constexpr std::chrono::seconds kRefreshInterval{2};
constexpr std::chrono::seconds kMaxPublishingInterval{60};
// Files come and go while they are listed.
constexpr int kListings = 3;

bool is_for_now(int error) noexcept {
    switch (error) {
        case kStoreIsFull:
        case ENOSPC:
        case EDQUOT:
        case ENOMEM:
        case EMFILE:
        case ENFILE:
            return true;
        default:
            return false;
    }
}

}  // namespace

RecordStore::RecordStore(UniqueFd folder, std::unique_ptr<const HashKey> key, std::uint64_t max_bytes, bool may_write,
                         std::uint64_t max_file_bytes)
    : folder_(std::move(folder)),
      key_(std::move(key)),
      place_{folder_.get(), RecordKind::kIndex, key_.get(), max_bytes},
      may_write_(may_write),
      unpublished_(kMaxWaitingBytes),
      snapshot_(std::make_shared<const RecordSnapshot>()),
      appender_(place_, max_file_bytes != 0 ? max_file_bytes : max_record_file_bytes(place_.kind, max_bytes)),
      keeps_(may_write) {}

int RecordStore::open() {
    std::int64_t time = 0;
    const int error = find_folder_time(folder_.get(), &time);
    if (error == 0) refresh();
    return error;
}

void RecordStore::run() noexcept {
    bool is_tidy = !may_write_;
    for (bool is_open = true; is_open;) {
        Tasks tasks;
        try {
            if (!std::exchange(is_tidy, true)) tidy();
            tasks = wait_for_tasks();
            do_tasks(tasks);
        } catch (const std::bad_alloc&) {
            stop_keeping(ENOMEM);
        }
        is_open = !tasks.closes;
        const std::lock_guard<std::mutex> lock(tasks_mutex_);
        rounds_done_ = std::max(rounds_done_, tasks.round);
        done_.notify_all();
    }
    appender_.close();
}

void RecordStore::ask(bool closes, bool refreshes, bool publishes) noexcept {
    if (is_forked()) return;
    const std::lock_guard<std::mutex> lock(tasks_mutex_);
    tasks_.closes |= closes;
    tasks_.refreshes |= refreshes;
    tasks_.publishes |= publishes;
    ++tasks_.round;
    asked_.notify_one();
}

void RecordStore::close() noexcept { ask(true, false, false); }

void RecordStore::begin_epoch() noexcept {
    if (is_for_now(write_error_.load(std::memory_order_relaxed)) && may_write_) keeps_.store(true);
    ask(false, true, false);
}

void RecordStore::end_epoch() noexcept { ask(false, false, true); }

bool RecordStore::flush(std::chrono::milliseconds timeout) noexcept {
    if (is_forked()) return false;
    std::unique_lock<std::mutex> lock(tasks_mutex_);
    tasks_.publishes = true;
    tasks_.refreshes = true;
    const std::uint64_t round = ++tasks_.round;
    asked_.notify_one();
    return done_.wait_for(lock, timeout, [&] { return rounds_done_ >= round; });
}

RecordStore::Tasks RecordStore::wait_for_tasks() {
    std::unique_lock<std::mutex> lock(tasks_mutex_);
    asked_.wait_for(lock, kWritingInterval, [this] {
        return tasks_.closes || tasks_.refreshes || tasks_.publishes ||
               unpublished_.waiting_bytes() >= kManyWaitingBytes;
    });
    const Tasks tasks = tasks_;
    tasks_.refreshes = false;
    tasks_.publishes = false;
    return tasks;
}

void RecordStore::do_tasks(const Tasks& tasks) {
    write_waiting();
    const bool is_due = appender_.has_unpublished() && Clock::now() >= next_publishing_;
    if (is_due || tasks.publishes || tasks.closes) publish();
    if (is_due) publishing_interval_ = std::min(2 * publishing_interval_, kMaxPublishingInterval);
    if (tasks.refreshes || Clock::now() >= next_refresh_) refresh();
}

void RecordStore::write_waiting() {
    std::vector<UnpublishedRecords::Waiting> waiting = unpublished_.take();
    std::size_t written = 0;
    try {
        for (; written < waiting.size(); ++written) {
            write(waiting[written]);
            waiting[written].bytes.reset();
        }
    } catch (const std::bad_alloc&) {
        for (; written < waiting.size(); ++written) unpublished_.drop(waiting[written]);
        throw;
    }
    bytes_written_.store(appender_.bytes_written(), std::memory_order_relaxed);
}

void RecordStore::write(const UnpublishedRecords::Waiting& record) {
    if (!keeps_.load(std::memory_order_relaxed)) return unpublished_.drop(record);
    const ByteSpan bytes(record.bytes->data(), record.bytes->size());
    RecordPlace place;
    int error = appender_.append(record.key, record.rank, bytes, &place);
    if (error == EFBIG) {
        publish();
        appender_.close();
        if (!keeps_.load(std::memory_order_relaxed)) return unpublished_.drop(record);
        error = appender_.append(record.key, record.rank, bytes, &place);
    }
    if (error != 0) {
        unpublished_.drop(record);
        return stop_keeping(error);
    }
    write_error_.store(0, std::memory_order_relaxed);  // there is room again
    // Set for the first record that is not published.
    if (next_publishing_ == Clock::time_point()) next_publishing_ = Clock::now() + publishing_interval_;
    unpublished_.set_written(record, {appender_.file(), place});
}

void RecordStore::publish() {
    next_publishing_ = Clock::time_point();
    std::shared_ptr<const OpenedRecords> opened;
    if (const int error = appender_.publish(&opened); error != 0) {
        stop_keeping(error);
        // Other processes cannot see the written records, which only take space.
        unpublished_.forget_written();
        appender_.close();
        remove_what_is_left();
        return;
    }
    if (opened == nullptr) return;
    replace_in_snapshot(std::move(opened));
    unpublished_.forget_written();
}

void RecordStore::replace_in_snapshot(std::shared_ptr<const OpenedRecords> file) {
    auto changed = std::make_shared<RecordSnapshot>(*snapshot());
    const auto known = std::find_if(changed->files.begin(), changed->files.end(),
                                    [&file](const auto& other) { return other->name() == file->name(); });
    if (known != changed->files.end()) {
        *known = std::move(file);
    } else {
        changed->files.push_back(std::move(file));
    }
    set_snapshot(std::move(changed));
}

// Looks for records that others have published, if anything in the folder has changed.
void RecordStore::refresh() {
    next_refresh_ = Clock::now() + kRefreshInterval;
    std::int64_t time = 0;
    // The time before the listing: changes during it are seen the next time.
    if (find_folder_time(folder_.get(), &time) != 0) return stop_keeping(ENOENT);
    if (time == folder_time_) return;
    const std::shared_ptr<const RecordSnapshot> before = snapshot();
    // A second change in the same tick of the file system's clock would go unnoticed.
    bool is_settled =
        std::chrono::system_clock::now().time_since_epoch() - std::chrono::nanoseconds(time) > kRefreshInterval;
    for (int listing = 0; listing < kListings; ++listing) {
        FolderFiles files;
        if (list_record_files(folder_.get(), place_.kind, &files) != 0) return;
        used_bytes_.store(files.used_bytes, std::memory_order_relaxed);
        auto after = std::make_shared<RecordSnapshot>();
        bool is_whole = true;
        for (const std::string& name : files.complete) {
            const auto known = std::find_if(before->files.begin(), before->files.end(),
                                            [&name](const auto& file) { return file->name() == name; });
            int error = 0;
            std::uint64_t generation = 0;
            if (known != before->files.end() &&
                (name == appender_.name() ||
                 (read_record_generation(folder_.get(), name, &generation, &error) == RecordFileVerdict::kGood &&
                  generation == (*known)->generation()))) {
                after->files.push_back(*known);
                continue;
            }
            if (auto opened = open_records(place_, name, &error); opened != nullptr) {
                after->files.push_back(std::move(opened));
                continue;
            }
            is_whole = is_whole && error != ENOENT;
            if (error == 0 || error == ENOENT || error == EBADMSG) continue;
            // The system refuses for now: the known records stay, and the next look tries again.
            is_settled = false;
            if (known != before->files.end()) after->files.push_back(*known);
        }
        set_snapshot(std::move(after));
        if (is_whole) break;
    }
    folder_time_ = is_settled ? time : kUnknownTime;
}

std::shared_ptr<const RecordSnapshot> RecordStore::snapshot() const noexcept {
    const std::lock_guard<std::mutex> lock(snapshot_mutex_);
    return snapshot_;
}

void RecordStore::set_snapshot(std::shared_ptr<const RecordSnapshot> snapshot) noexcept {
    const std::lock_guard<std::mutex> lock(snapshot_mutex_);
    snapshot_.swap(snapshot);
}

// Removes the remains of killed processes, and merges many small files.
void RecordStore::tidy() {
    remove_what_is_left();
    merge_records(place_, kMaxClosedFiles);
    refresh();
}

void RecordStore::remove_what_is_left() {
    FolderLock lock;
    if (FolderLock::take(folder_.get(), "lock", true, &lock) != 0) return;
    remove_remains(folder_.get(), place_.kind);
    for (const auto& file : snapshot()->files) trim_record_file(folder_.get(), file->name(), file->covered_bytes());
}

void RecordStore::stop_keeping(int error) noexcept {
    keeps_.store(false, std::memory_order_relaxed);
    write_error_.store(error, std::memory_order_relaxed);
}

bool RecordStore::find_record(const ContentKey& key, StoredRecord* record) const noexcept {
    if (reads_.error() != 0 || is_removed(key)) return false;
    // In this order, a record that is published meanwhile is found in one of them.
    UnpublishedRecords::Record own;
    const bool is_own = unpublished_.find(key, &own);
    const std::shared_ptr<const RecordSnapshot> now = snapshot();
    FoundRecord found;
    const OpenedRecords* const opened = now->find(key.hash, &found);
    if (is_own && (opened == nullptr || own.rank >= found.rank)) {
        *record = own.bytes != nullptr ? StoredRecord(std::move(own.bytes))
                                       : StoredRecord(key, own.written.place, std::move(own.written.file), &reads_);
        return true;
    }
    // Another process may have written a file that names a larger record than the kind allows.
    if (opened == nullptr || found.place.size > kMaxRecordBytes) return false;
    *record = StoredRecord(key, found.place, opened->file(), &reads_);
    return true;
}

std::size_t RecordStore::find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept {
    StoredRecord record;
    if (!find_record(key, &record)) return 0;
    const std::size_t size = record.size();
    return size > buffer.size() || record.read(0, buffer.subspan(0, size)) ? size : 0;
}

bool RecordStore::put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept {
    if (!keeps_.load(std::memory_order_relaxed)) return false;
    if (record.is_empty() || record.size() > kMaxRecordBytes) return false;
    if (is_removed(key)) return true;
    FoundRecord found;
    if (snapshot()->find(key.hash, &found) != nullptr && found.rank >= rank) return true;
    const bool is_kept = unpublished_.offer(key, rank, record);
    // Notifies without the lock of the waiting thread. If the thread misses this, the next notification or its own
    // time-out wakes it.
    if (unpublished_.waiting_bytes() >= kManyWaitingBytes) asked_.notify_one();
    return is_kept;
}

// The record on disk stays; this process does not look at it again.
void RecordStore::remove(const ContentKey& key) noexcept {
    const std::lock_guard<std::mutex> lock(removed_mutex_);
    try {
        removed_.insert(key.hash.low);
    } catch (const std::bad_alloc&) {
        return;  // the record will be found wrong again
    }
    has_removed_.store(true, std::memory_order_relaxed);
}

bool RecordStore::is_removed(const ContentKey& key) const noexcept {
    if (!has_removed_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard<std::mutex> lock(removed_mutex_);
    return removed_.count(key.hash.low) != 0;
}

std::uint64_t RecordStore::overhead_bytes() const noexcept {
    // The head and the padding of a record, and twice its entry in a directory.
    return record_file_bytes(0) + 8 + 2 * sizeof(DirectoryEntry);
}

StoreCounters RecordStore::counters() const noexcept {
    StoreCounters counters;
    const std::shared_ptr<const RecordSnapshot> now = snapshot();
    counters.records = now->num_records();
    counters.memory_bytes = now->memory_bytes();
    counters.bytes_read = reads_.bytes();
    counters.bytes_written = bytes_written_.load(std::memory_order_relaxed);
    counters.damaged = reads_.damaged();
    counters.write_error = write_error_.load(std::memory_order_relaxed);
    counters.read_error = reads_.error();
    return counters;
}

}  // namespace fastload
