#include "engine/draw_lane.h"

#include <algorithm>
#include <new>
#include <utility>

namespace fastload {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t nanoseconds_since(Clock::time_point begin) {
    return static_cast<std::uint64_t>((Clock::now() - begin).count());
}

// A worker borrowed from the core for the length of a scope.
class BorrowedWorker {
  public:
    explicit BorrowedWorker(EngineCore& core) : core_(core), worker_(core.borrow_worker()) {}
    ~BorrowedWorker() { core_.return_worker(std::move(worker_)); }
    SampleWorker& operator*() const noexcept { return *worker_; }

  private:
    EngineCore& core_;
    std::unique_ptr<SampleWorker> worker_;
};

}  // namespace

class DrawLane::Choices final : public SampleChoices {
  public:
    Choices(DrawLane& lane, const PendingSample& sample) noexcept : lane_(lane), sample_(sample) {}

    Status resolve(const SampleTask& task, ImageSize source_size) noexcept override {
        if (lane_.draw_order_.is_needed()) return lane_.resolve_in_order(sample_, source_size);
        CounterDraws draws = sample_.slot->counter_draws(lane_.source_, sample_.position);
        return lane_.source_.resolve(&draws, source_size, task.report);
    }

  private:
    DrawLane& lane_;
    const PendingSample& sample_;
};

DrawLane::DrawLane(std::shared_ptr<EngineCore> core, SampleSource source)
    : core_(std::move(core)), source_(std::move(source)), draw_order_(source_) {}

std::shared_ptr<DrawLane> DrawLane::open(std::shared_ptr<EngineCore> core, SampleSource source) {
    auto lane = std::make_shared<DrawLane>(std::move(core), std::move(source));
    lane->core().add_client(lane);
    // The end of the engine reaches the lanes registered by then; a lane added later sees that the queue is closed.
    if (lane->core().work().is_closed()) lane->cancel();
    return lane;
}

std::vector<std::shared_ptr<void>> DrawLane::memory_in_flight() const {
    std::vector<std::shared_ptr<void>> memory;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::shared_ptr<BatchSlot>& slot : in_flight_) memory.push_back(slot->memory);
    return memory;
}

void DrawLane::submit(const NewBatch& batch) { queue(slot_for(batch), WorkQueue::End::kBack); }

void DrawLane::submit_first(const NewBatch& batch, Span<const LostDraws> lost_draws) {
    std::shared_ptr<BatchSlot> slot = slot_for(batch);
    slot->lost_draws.assign(lost_draws.begin(), lost_draws.end());
    slot->revived.reserve(lost_draws.size());
    slot->lost_report.reset(source_);
    queue(std::move(slot), WorkQueue::End::kFront);
}

std::shared_ptr<BatchSlot> DrawLane::slot_for(const NewBatch& batch) {
    const std::size_t size = batch.indices.size();
    std::shared_ptr<BatchSlot> slot = free_slot();
    slot->sample_indices.assign(batch.indices.begin(), batch.indices.end());
    slot->draw_numbers.assign(batch.draw_numbers.begin(), batch.draw_numbers.end());
    slot->reports.resize(size);
    for (SampleReport& report : slot->reports) report.reset(source_);
    slot->images.assign(batch.images.begin(), batch.images.end());
    slot->memory = batch.memory;
    slot->copy = batch.copy;
    slot->next_position = 0;
    slot->samples_left = size;
    slot->errors.clear();
    slot->errors.reserve(size);
    slot->lost_draws.clear();
    slot->revived.clear();
    slot->files.clear();
    slot->files.resize(size);
    slot->turns.assign(draw_order_.is_needed() ? size : 0, SampleTurn{});
    slot->has_begun_to_draw = false;
    slot->num_drawn = slot->num_lost_drawn = 0;
    return slot;
}

void DrawLane::queue(std::shared_ptr<BatchSlot> slot, WorkQueue::End end) {
    const bool is_empty = slot->sample_indices.empty();
    std::list<WorkQueue::Entry> work;
    if (core_->num_threads() > 0 && !is_empty) work.push_back({shared_from_this(), slot});
    {
        std::list<std::shared_ptr<BatchSlot>> batch{slot};
        std::list<PendingSample> none_waits;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_cancelled_.load(std::memory_order_relaxed)) {
            is_cut_short_ = true;
            return;
        }
        slot->is_ready = is_empty;
        in_flight_.splice(end == WorkQueue::End::kBack ? in_flight_.end() : in_flight_.begin(), batch);
        // An empty batch has no sample whose thread would do it.
        if (is_empty && draw_order_.is_needed()) draw_order_.advance(in_flight_, &none_waits);
    }
    core_->work().push(std::move(work), end);
    // cancel() may have emptied the queue between the check above and the push.
    if (is_cancelled_.load(std::memory_order_relaxed)) core_->work().remove(this);
}

std::shared_ptr<BatchSlot> DrawLane::free_slot() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        // A thread may still hold a reference to the slot it finished last, but no longer reads it.
        if (!free_slots_.empty()) {
            std::shared_ptr<BatchSlot> slot = std::move(free_slots_.back());
            free_slots_.pop_back();
            return slot;
        }
    }
    return std::make_shared<BatchSlot>();
}

WaitResult DrawLane::wait(std::chrono::milliseconds budget, PendingSample* needs_python) {
    return core_->num_threads() > 0 ? wait_for_threads(budget) : run_in_caller(budget, needs_python);
}

bool DrawLane::is_front_ready() const { return !in_flight_.empty() && in_flight_.front()->is_ready; }

WaitResult DrawLane::result_of_close() const {
    return is_cut_short_ ? WaitResult::kClosed : WaitResult::kNothingInFlight;
}

WaitResult DrawLane::wait_for_threads(std::chrono::milliseconds budget) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_over = [this] {
        return is_cancelled_.load(std::memory_order_relaxed) || !fault_.is_ok() || in_flight_.empty() ||
               is_front_ready();
    };
    const bool is_done = batch_ready_.wait_for(lock, budget, is_over);
    if (!fault_.is_ok()) return WaitResult::kFault;
    if (is_cancelled_.load(std::memory_order_relaxed)) return result_of_close();
    if (in_flight_.empty()) return WaitResult::kNothingInFlight;
    return is_done ? WaitResult::kReady : WaitResult::kTimedOut;
}

WaitResult DrawLane::run_in_caller(std::chrono::milliseconds budget, PendingSample* needs_python) {
    const Clock::time_point end = Clock::now() + budget;
    const BorrowedWorker worker(*core_);
    for (;;) {
        std::shared_ptr<BatchSlot> slot;
        std::size_t position = 0;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (is_cancelled_.load(std::memory_order_relaxed)) return result_of_close();
            if (in_flight_.empty()) return WaitResult::kNothingInFlight;
            if (is_front_ready()) return WaitResult::kReady;
            slot = in_flight_.front();
            // Samples finish in order here, so a sample that was handed out and dropped comes again.
            position = slot->sample_indices.size() - slot->samples_left;
        }
        if (Clock::now() >= end) return WaitResult::kTimedOut;
        PendingSample sample{shared_from_this(), std::move(slot), position, {}, {}, {}, {}};
        SampleTimings timings;
        Choices choices(*this, sample);
        ensure_file(sample);
        const Status status = (*worker).run(task_of(sample, &choices), &timings);
        give_file_back(sample);
        count_run(timings, status);
        if (is_for_fallback(status.code)) {
            sample.reason = status;
            sample.taken_at = Clock::now();
            *needs_python = std::move(sample);
            return WaitResult::kNeedsPython;
        }
        finish(sample, status, nullptr);
    }
}

std::shared_ptr<BatchSlot> DrawLane::take_ready(std::shared_ptr<void>* memory) {
    std::shared_ptr<BatchSlot> slot;
    std::shared_ptr<BatchCopy> copy;  // released after the lock
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!is_front_ready()) return nullptr;
        slot = std::move(in_flight_.front());
        in_flight_.pop_front();
        *memory = std::move(slot->memory);
        copy = std::move(slot->copy);
    }
    core_->stats().update([](EngineCounters& counters) { ++counters.batches_delivered; });
    return slot;
}

void DrawLane::recycle(std::shared_ptr<BatchSlot> slot) noexcept {
    slot->errors.clear();
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
        free_slots_.push_back(std::move(slot));
    } catch (const std::bad_alloc&) {
        return;  // no memory for the list: the slot is dropped
    }
}

void DrawLane::cancel() noexcept {
    std::list<std::shared_ptr<BatchSlot>> dropped;  // destroyed after the lock
    std::list<PendingSample> dropped_samples;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        is_cancelled_.store(true, std::memory_order_relaxed);
        draw_order_.rewind(in_flight_);
        dropped.swap(in_flight_);
        dropped_samples = draw_order_.drop_parked();
        if (!dropped.empty()) is_cut_short_ = true;
    }
    batch_ready_.notify_all();
    core_->work().remove(this);
    core_->fallback().remove(this);
}

void DrawLane::ensure_file(const PendingSample& sample) {
    std::unique_ptr<SampleFile>& file = sample.slot->files[sample.position];
    if (file == nullptr) file = core_->files().take();
}

void DrawLane::give_file_back(const PendingSample& sample) noexcept {
    core_->files().give_back(std::move(sample.slot->files[sample.position]));
}

SampleTask DrawLane::task_of(const PendingSample& sample, SampleChoices* choices) const {
    BatchSlot& slot = *sample.slot;
    SampleTask task;
    task.source = &source_;
    task.sample_index = slot.sample_indices[sample.position];
    task.position = sample.position;
    task.images = slot.images.data();
    task.is_cancelled = &is_cancelled_;
    task.file = slot.files[sample.position].get();
    task.report = &slot.reports[sample.position];
    task.report->sample_index = task.sample_index;
    task.choices = choices;
    return task;
}

// See Note [draw order].
Status DrawLane::resolve_in_order(const PendingSample& sample, ImageSize source_size) noexcept {
    std::list<PendingSample>
        place;  // the list node of a waiting sample; made without the lock, and only if the sample has to wait
    std::list<PendingSample> resumed;
    Status status;
    for (;;) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (is_cancelled_.load(std::memory_order_relaxed)) return {StatusCode::kCancelled, 0, 0, ""};
            SampleTurn& turn = sample.slot->turns[sample.position];
            SampleReport& report = sample.slot->reports[sample.position];
            if (!turn.has_size) {
                turn.has_size = true;
                report.source_size = source_size;
                draw_order_.advance(in_flight_, &resumed);
            }
            const ImageSize known = report.source_size;
            if (known.width != source_size.width || known.height != source_size.height) {
                status = {StatusCode::kInvalidGeometry, 0, 0, "the size of the image changed while it was loaded"};
                break;
            }
            if (turn.has_drawn) {
                status = turn.status;
                break;
            }
            if (!place.empty()) {
                SampleFile* const file = sample.slot->files[sample.position].get();
                if (file != nullptr && !file->may_wait(SampleFiles::kMaxWaitingBytes)) file->forget();
                turn.is_parked = true;
                draw_order_.park(std::move(place));
                status = {StatusCode::kWaitsForDraws, 0, 0, ""};
                break;
            }
        }
        try {
            place = core_->work().list_of(sample);
        } catch (const std::bad_alloc&) {
            status = {StatusCode::kOutOfMemory, 0, 0, "no memory to let the sample wait"};
            break;
        }
    }
    core_->work().push_again(std::move(resumed));
    return status;
}

void DrawLane::set_draws(const TorchDraws& draws) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    draw_order_.set_draws(draws);
}

std::optional<TorchDraws> DrawLane::draws_after(const BatchSlot& slot) const {
    if (!draw_order_.is_needed()) return std::nullopt;
    const std::lock_guard<std::mutex> lock(mutex_);
    return draw_order_.draws_after(slot);
}

std::optional<TorchDraws> DrawLane::draws_untaken() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return draw_order_.draws_before(in_flight_);
}

std::optional<TorchDraws> DrawLane::draws_before(const BatchSlot& slot) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return draw_order_.draws_before(slot);
}

std::uint64_t DrawLane::run_sample(PendingSample sample, SampleWorker& worker) noexcept {
    if (is_cancelled_.load(std::memory_order_relaxed)) return 0;
    SampleTimings timings;
    try {
        const Status status = load(sample, worker, &timings);
        count_run(timings, status);
        if (status.code == StatusCode::kWaitsForDraws) return timings.storage_ns();
        give_file_back(sample);
        if (is_for_fallback(status.code)) {
            leave_to_fallback(sample, status);
        } else {
            finish(sample, status, nullptr);
        }
    } catch (const std::bad_alloc&) {
        give_file_back(sample);
        finish(sample, {StatusCode::kOutOfMemory, 0, 0, "no memory to load the sample"}, nullptr);
    }
    return timings.storage_ns();
}

Status DrawLane::load(const PendingSample& sample, SampleWorker& worker, SampleTimings* timings) {
    Choices choices(*this, sample);
    if (sample.pixels_owner != nullptr) {
        return worker.run_with_pixels(task_of(sample, &choices), sample.pixels, timings);
    }
    ensure_file(sample);
    return worker.run(task_of(sample, &choices), timings);
}

void DrawLane::leave_to_fallback(const PendingSample& sample, Status reason) {
    std::list<PendingSample> left{sample};
    left.back().reason = reason;
    core_->fallback().push(std::move(left));
    // cancel() may have emptied the queue before the push.
    if (is_cancelled_.load(std::memory_order_relaxed)) core_->fallback().remove(this);
}

std::uint64_t DrawLane::read_ahead(const PendingSample& sample, SampleWorker& worker) noexcept {
    SampleTimings timings;
    try {
        ensure_file(sample);
        worker.read_ahead(task_of(sample, nullptr), &timings);
        count_run(timings, Status::ok());
        // Even beyond the limit: no more samples are taken then.
        sample.slot->files[sample.position]->may_wait(SIZE_MAX);
    } catch (const std::bad_alloc&) {
        return 0;  // not read: the thread that decodes the sample tries again
    }
    return timings.storage_ns();
}

void DrawLane::complete(PendingSample sample) {
    if (is_cancelled_.load(std::memory_order_relaxed)) return;
    SampleTimings timings;
    timings.fallback_ns = nanoseconds_since(sample.taken_at);
    Choices choices(*this, sample);
    Status status;
    {
        const BorrowedWorker worker(*core_);
        status = (*worker).run_with_pixels(task_of(sample, &choices), sample.pixels, &timings);
    }
    count_run(timings, Status::ok());
    if (status.code != StatusCode::kWaitsForDraws) finish(sample, status, nullptr);
}

void DrawLane::fail(const PendingSample& sample, Status status, std::shared_ptr<void> python_error) noexcept {
    SampleTimings timings;
    timings.fallback_ns = nanoseconds_since(sample.taken_at);
    count_run(timings, Status::ok());
    finish(sample, status, std::move(python_error));
}

void DrawLane::drop(const PendingSample& sample) noexcept {
    if (core_->num_threads() == 0) return;
    finish(sample, {StatusCode::kCancelled, 0, 0, "the fallback decoder dropped the sample"}, nullptr);
}

void DrawLane::count_run(const SampleTimings& timings, Status status) {
    core_->stats().update([&](EngineCounters& counters) {
        counters.stages.add(timings);
        if (is_for_fallback(status.code)) ++counters.fallback_reasons[status.detail];
    });
}

void DrawLane::finish(const PendingSample& sample, Status status, std::shared_ptr<void> python_error) noexcept {
    if (is_cancelled_.load(std::memory_order_relaxed)) return;  // the batch will not be asked for
    const bool is_by_fallback = !sample.reason.is_ok();
    // Before the batch can be seen as complete, so that a consumer's stats() include its last batch.
    core_->stats().update([&](EngineCounters& counters) {
        ++(!status.is_ok()  ? counters.samples_failed
           : is_by_fallback ? counters.samples_fallback
                            : counters.samples_native);
    });
    bool is_batch_complete = false;
    std::shared_ptr<BatchCopy> copy;  // queued before the batch can be taken
    std::list<PendingSample> resumed;
    {
        BatchSlot& slot = *sample.slot;
        const std::lock_guard<std::mutex> lock(mutex_);
        slot.reports[sample.position].is_by_fallback = is_by_fallback;
        if (!status.is_ok()) {
            slot.add_error({sample.position, slot.sample_indices[sample.position], status, std::move(python_error)});
        }
        if (!status.is_ok() && draw_order_.is_needed() && !slot.turns[sample.position].has_drawn) {
            slot.turns[sample.position].is_lost = true;
            draw_order_.advance(in_flight_, &resumed);
        }
        is_batch_complete = --slot.samples_left == 0;
        if (is_batch_complete && slot.errors.empty() && slot.revived.empty()) copy = slot.copy;
        if (is_batch_complete && copy == nullptr) slot.is_ready = true;
    }
    if (copy != nullptr) {
        copy->set_written();
        const std::lock_guard<std::mutex> lock(mutex_);
        sample.slot->is_ready = true;
    }
    core_->work().push_again(std::move(resumed));
    if (is_batch_complete) batch_ready_.notify_all();
}

void DrawLane::set_fault(Status status) noexcept {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (fault_.is_ok()) fault_ = status;
    }
    batch_ready_.notify_all();
}

Status DrawLane::fault() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return fault_;
}

std::size_t DrawLane::batches_in_flight() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return in_flight_.size();
}

std::size_t DrawLane::batches_ready() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(in_flight_.begin(), in_flight_.end(), [](const auto& slot) { return slot->is_ready; }));
}

}  // namespace fastload
