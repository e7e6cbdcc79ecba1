#include "engine/cache/record_store.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "io/records/record_folder.h"

namespace fastload {
namespace {

// The most bytes of records that wait to be written.
constexpr std::size_t kMaxWaitingBytes = std::size_t{64} << 20;
// From this many bytes on, the writing thread is woken.
constexpr std::size_t kManyWaitingBytes = std::size_t{8} << 20;
constexpr std::chrono::milliseconds kLookInterval{500};
constexpr std::chrono::seconds kRefreshInterval{2};
constexpr std::chrono::seconds kMaxPublishingInterval{60};

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
      appender_(place_, max_file_bytes),
      snapshot_(std::make_shared<const RecordSnapshot>()),
      keeps_(may_write) {}

int RecordStore::open() { return refresh(); }

void RecordStore::run() noexcept {
    bool is_tidy = !may_write_;
    for (bool is_open = true; is_open;) {
        Tasks tasks;
        try {
            if (!std::exchange(is_tidy, true)) remove_what_is_left();
            tasks = wait_for_tasks();
            do_tasks(tasks);
        } catch (const std::bad_alloc&) {
            stop_keeping(ENOMEM);
        }
        is_open = !tasks.closes;
        const std::lock_guard<std::mutex> lock(mutex_);
        rounds_done_ = std::max(rounds_done_, tasks.round);
        done_.notify_all();
    }
    appender_.close();
}

std::uint64_t RecordStore::ask(bool closes, bool refreshes, bool publishes) noexcept {
    if (is_forked()) return 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.closes |= closes;
    tasks_.refreshes |= refreshes;
    tasks_.publishes |= publishes;
    asked_.notify_one();
    return ++tasks_.round;
}

void RecordStore::close() noexcept { ask(true, false, false); }

void RecordStore::begin_epoch() noexcept {
    if (is_for_now(write_error_.load(std::memory_order_relaxed)) && may_write_) keeps_.store(true);
    ask(false, true, false);
}

void RecordStore::end_epoch() noexcept { ask(false, false, true); }

bool RecordStore::flush(std::chrono::milliseconds timeout) noexcept {
    const std::uint64_t round = ask(false, true, true);
    if (is_forked()) return false;
    std::unique_lock<std::mutex> lock(mutex_);
    return done_.wait_for(lock, timeout, [&] { return rounds_done_ >= round; });
}

RecordStore::Tasks RecordStore::wait_for_tasks() {
    std::unique_lock<std::mutex> lock(mutex_);
    asked_.wait_for(lock, kLookInterval, [this] {
        return tasks_.closes || tasks_.refreshes || tasks_.publishes || waiting_.record_bytes() >= kManyWaitingBytes;
    });
    const Tasks tasks = tasks_;
    tasks_.refreshes = false;
    tasks_.publishes = false;
    return tasks;
}

void RecordStore::do_tasks(const Tasks& tasks) {
    const bool is_due = is_publishing_due();
    if (is_due || tasks.publishes || tasks.closes) publish();
    if (is_due) publishing_interval_ = std::min(2 * publishing_interval_, kMaxPublishingInterval);
    if (tasks.refreshes || Clock::now() >= next_refresh_) static_cast<void>(refresh());  // the next one tries again
}

bool RecordStore::is_publishing_due() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() == 0) return false;
    const auto now = Clock::now();
    if (next_publishing_ == Clock::time_point()) next_publishing_ = now + publishing_interval_;
    return now >= next_publishing_ || waiting_.record_bytes() >= kManyWaitingBytes;
}

// Publishes what waits, or drops it if that fails.
void RecordStore::publish() noexcept {
    next_publishing_ = Clock::time_point();
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::swap(waiting_, publishing_);
    }
    if (publishing_.size() == 0) return;
    int error = write_error_.load(std::memory_order_relaxed);
    if (keeps_.load(std::memory_order_relaxed)) {
        try {
            error = write(publishing_);
        } catch (const std::bad_alloc&) {
            error = ENOMEM;
        }
        if (error != 0) appender_.close();
    }
    if (error != 0) stop_keeping(error);
    if (error == 0) write_error_.store(0, std::memory_order_relaxed);  // there is room again
    bytes_written_.store(appender_.bytes_written(), std::memory_order_relaxed);
    RecordMap published;  // destroyed without the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(publishing_, published);
}

// Publishes all that there is room for. Returns the first error. May throw std::bad_alloc.
int RecordStore::write(const RecordMap& records) {
    FolderLock lock;
    int error = FolderLock::take(folder_.get(), &lock);
    if (error != 0) return error;
    std::uint64_t count = 0;
    for (auto record = records.begin(); record != records.end() && error == 0; ++record) {
        error = appender_.append(record->first, record->second->rank, record->second->view());
        count += error == 0 ? 1 : 0;
    }
    std::shared_ptr<const OpenedRecords> opened;
    const int publishing_error = appender_.publish(&opened);
    if (publishing_error == 0) records_published_.fetch_add(count, std::memory_order_relaxed);
    if (opened != nullptr) replace_in_snapshot(std::move(opened));
    if (appender_.is_full()) appender_.close();
    return error != 0 ? error : publishing_error;
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

// Looks for records that others have published, if anything in the folder has changed. Returns 0 or the system's error.
int RecordStore::refresh() {
    next_refresh_ = Clock::now() + kRefreshInterval;
    std::int64_t time = 0;
    // The time before the listing: changes during it are seen the next time.
    if (const int error = find_folder_time(folder_.get(), &time); error != 0) return error;
    if (time == folder_time_) return 0;
    // A second change in the same tick of the file system's clock would go unnoticed.
    const bool is_over =
        std::chrono::system_clock::now().time_since_epoch() - std::chrono::nanoseconds(time) > kRefreshInterval;
    auto after = std::make_shared<RecordSnapshot>();
    if (const int error = look_at_folder(place_, *snapshot(), after.get()); error != 0) return error;
    folder_time_ = is_over && after->is_settled ? time : kUnknownTime;
    set_snapshot(std::move(after));
    return 0;
}

std::shared_ptr<const RecordSnapshot> RecordStore::snapshot() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return snapshot_;
}

void RecordStore::set_snapshot(std::shared_ptr<const RecordSnapshot> snapshot) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    snapshot_.swap(snapshot);
}

// Removes the remains of killed processes.
void RecordStore::remove_what_is_left() {
    FolderLock lock;
    if (FolderLock::take(folder_.get(), &lock) == 0) remove_remains(folder_.get(), place_.kind);
}

void RecordStore::stop_keeping(int error) noexcept {
    keeps_.store(false, std::memory_order_relaxed);
    write_error_.store(error, std::memory_order_relaxed);
}

std::size_t RecordStore::find(const ContentKey& key, Span<std::uint8_t> buffer) const noexcept {
    std::shared_ptr<const RecordSnapshot> files;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (reads_.error() != 0 || removed_.count(key.hash.low) != 0) return 0;
        for (const RecordMap* own : {&waiting_, &publishing_}) {
            if (const RecordMap::Record* record = own->find(key); record != nullptr) return record->copy_to(buffer);
        }
        files = snapshot_;
    }
    StoredRecord record;
    if (!find_stored(*files, key, kMaxRecordBytes, &reads_, &record)) return 0;
    const std::size_t size = record.size();
    return size > buffer.size() || record.read(0, buffer.subspan(0, size)) ? size : 0;
}

bool RecordStore::put(const ContentKey& key, std::uint32_t rank, ByteSpan record) noexcept {
    if (!keeps_.load(std::memory_order_relaxed)) return false;
    if (record.is_empty() || record.size() > kMaxRecordBytes) return false;
    FoundRecord found;
    if (snapshot()->find(key.hash, &found) != nullptr && found.rank >= rank) return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (removed_.count(key.hash.low) != 0) return true;
    for (const RecordMap* own : {&waiting_, &publishing_}) {
        if (const RecordMap::Record* known = own->find(key); known != nullptr && known->rank >= rank) return true;
    }
    if (waiting_.record_bytes() + publishing_.record_bytes() + record.size() > kMaxWaitingBytes) return false;
    const bool is_kept = waiting_.put(key, rank, record);
    if (waiting_.record_bytes() >= kManyWaitingBytes) asked_.notify_one();
    return is_kept;
}

// The record on disk stays; this process does not look at it again.
void RecordStore::remove(const ContentKey& key) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
        removed_.insert(key.hash.low);
    } catch (const std::bad_alloc&) {  // the record will be found wrong again
    }
}

std::uint64_t RecordStore::overhead_bytes() const noexcept {
    // The head and the padding of a record, and twice its entry in a directory.
    return record_file_bytes(0) + 8 + 2 * sizeof(DirectoryEntry);
}

StoreCounters RecordStore::counters() const noexcept {
    return {read_counters(*snapshot(), reads_), bytes_written_.load(std::memory_order_relaxed),
            records_published_.load(std::memory_order_relaxed), write_error_.load(std::memory_order_relaxed)};
}

}  // namespace fastload
