// Iterations, their batches and their samples for the reference decoder.
#include "bindings/pybind.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "engine/fork_guard.h"
#include "engine/iteration.h"
#include "python/without_gil.h"

namespace py = pybind11;

namespace fastload {
namespace {

using IndexArray = py::array_t<std::int64_t, py::array::c_style>;

// Draw numbers of a batch's samples: Note [counter layout].
using NumberArray = py::array_t<std::uint32_t, py::array::c_style>;

// Address and size of the batch of each view; none for an empty batch.
using Memory = std::vector<std::pair<std::uintptr_t, std::size_t>>;

// Longest time that a wait keeps Python's signal handlers from running: a Ctrl-C is noticed within it.
constexpr std::chrono::milliseconds kSignalPollInterval{50};

py::bytes path_of(const DrawLane& lane, std::int64_t sample_index) {
    return path_of(*lane.source().index, sample_index);
}

// The steps applied to a sample for each view, in the form of SampleReport.views.
py::list list_views(const SampleReport& report) {
    py::list views;
    const py::list first_steps = list_reports(report.first_steps.operations);
    for (const ResolvedTransform& view : report.views) views.append(first_steps + list_reports(view.operations));
    return views;
}

// Position, width and height of LostDraws.
using LostDrawList = std::vector<std::tuple<std::size_t, std::int32_t, std::int32_t>>;

std::vector<LostDraws> lost_draws_of(const LostDrawList& list) {
    std::vector<LostDraws> lost;
    for (const auto& [position, width, height] : list) lost.push_back({position, {width, height}});
    return lost;
}

// The size of the image of a failed sample if it has drawn, else None.
py::object drawn_size_of(const BatchSlot& batch, const SampleError& error) {
    if (!batch.has_drawn_and_failed(error)) return py::none();
    const ImageSize size = batch.reports[error.position].source_size;
    return py::make_tuple(size.width, size.height);
}

[[noreturn]] void throw_fault(const Status& fault) {
    if (fault.code != StatusCode::kOutOfMemory) {
        throw std::runtime_error(std::string("a loader thread failed: ") + fault.detail);
    }
    PyErr_SetString(PyExc_MemoryError, fault.detail);
    throw py::error_already_set();
}

// A sample that needs the reference decoder.
class FallbackTask {
  public:
    explicit FallbackTask(PendingSample sample)
        : sample_(std::move(sample)), sample_index_(pending().slot->sample_indices[pending().position]) {}
    ~FallbackTask() {
        if (!is_finished_ && !core().is_forked()) pending().lane->drop(pending());
    }

    py::bytes path() const { return path_of(*pending().lane, sample_index_); }

    // For openat(): the directory of relative paths; none if it is the thread's current directory.
    std::optional<int> directory() const {
        const auto& directory = pending().lane->source().directory;
        return directory == nullptr ? std::nullopt : std::optional<int>(directory->descriptor());
    }

    std::string reason() const { return pending().reason.detail; }

    void complete(const py::buffer& pixels, std::int32_t width, std::int32_t height) {
        const PackedImageView rgb = view_packed(pixels, width, height);
        begin_finishing();
        try {
            PendingSample sample = pending();
            sample.pixels = rgb;
            sample.pixels_owner = make_token(pixels);
            without_gil([&] { sample.lane->complete(std::move(sample)); });
        } catch (const std::exception&) {
            is_finished_ = false;  // without memory the sample can still be failed
            throw;
        }
    }

    void fail(py::object exception) {
        begin_finishing();
        Status status{StatusCode::kIrregular, 0, 0, "the reference decoder raised"};
        std::shared_ptr<void> token;
        try {
            token = make_token(std::move(exception));
        } catch (const std::bad_alloc&) {
            status = {StatusCode::kOutOfMemory, 0, 0, "no memory to keep the exception of the reference decoder"};
        }
        pending().lane->fail(pending(), status, std::move(token));
    }

    // Another object finishes the sample.
    void set_finished() noexcept { is_finished_ = true; }

  private:
    const PendingSample& pending() const noexcept { return *sample_; }
    const EngineCore& core() const noexcept { return pending().lane->core(); }

    // Set before the GIL is released, so that one of two threads is refused.
    void begin_finishing() {
        check_process(core());
        if (is_finished_) throw std::logic_error("this fallback task is already finished");
        is_finished_ = true;
    }

    LeakedAfterFork<PendingSample> sample_;
    const std::int64_t sample_index_;  // a copy: a finished batch's slot serves other samples
    bool is_finished_ = false;
};

// A finished batch.
class Batch {
  public:
    explicit Batch(std::shared_ptr<DrawLane> lane) : lane_(std::move(lane)) {}
    ~Batch() {
        if (slot_ == nullptr || lane().core().is_forked()) return;
        lane().recycle(std::move(slot_));
        run_deferred_releases();
    }

    // Takes the next batch; false if another thread was faster. Cannot fail, so that no batch is lost.
    bool take_ready(Iteration& iteration) noexcept {
        slot_ = iteration.take_ready(&owner_);
        return slot_ != nullptr;
    }

    DrawLane& lane() const noexcept { return **lane_; }
    std::optional<TorchDraws> draws_before() const { return lane().draws_before(*slot_); }
    std::optional<TorchDraws> draws_after() const { return lane().draws_after(*slot_); }

    // The object given to submit() as the owner of this batch's memory. Once; from then on it is the caller's alone.
    py::object take_owner() {
        if (owner_ == nullptr) throw std::logic_error("the owner of this batch was taken before");
        py::object owner = object_of(owner_);
        owner_.reset();
        run_deferred_releases();
        return owner;
    }

    // All failed samples, by position.
    py::list errors() const {
        py::list errors;
        for (const SampleError& error : slot_->errors) errors.append(describe(error));
        return errors;
    }

    // Indices, among the lost draws it was submitted with, of samples that do not fail now: BatchSlot::revived.
    std::vector<std::size_t> revived() const { return slot_->revived; }

    bool is_whole() const noexcept { return slot_->errors.empty() && slot_->revived.empty(); }

    // The result of Iteration::take_back() for it.
    std::shared_ptr<DrawLane> taken_back(Iteration& iteration) const { return iteration.take_back(lane(), *slot_); }

    // For each sample (path, what made it, (width, height), the steps of each view).
    py::list reports() const {
        py::list reports;
        const bool has_first_steps = lane().source().first_steps != nullptr;
        const char* const record_name =
            record_kind_name(has_first_steps ? RecordKind::kPixels : RecordKind::kCoefficients);
        for (std::size_t position = 0; position < slot_->sample_indices.size(); ++position) {
            const SampleReport& report = slot_->reports[position];
            const char* const source = report.is_by_fallback ? "fallback"
                                       : report.is_by_record ? record_name
                                                             : "native";
            reports.append(py::make_tuple(path_of(lane(), slot_->sample_indices[position]), source,
                                          py::make_tuple(report.source_size.width, report.source_size.height),
                                          list_views(report)));
        }
        return reports;
    }

  private:
    py::dict describe(const SampleError& error) const {
        py::dict fields = describe_failure(error.status);
        fields["position"] = error.position;
        fields["path"] = path_of(lane(), error.sample_index);
        fields["drawn_size"] = drawn_size_of(*slot_, error);
        if (error.python_error != nullptr) fields["exception"] = object_of(error.python_error);
        return fields;
    }

    LeakedAfterFork<std::shared_ptr<DrawLane>> lane_;
    std::shared_ptr<BatchSlot> slot_;
    std::shared_ptr<void> owner_;
};

// A batch to be loaded: indices, memory, the owner of the memory, the copy to a device or None, and the draw numbers of
// its samples or None.
class Submission {
  public:
    // Throws py::value_error, or py::index_error for an index, if the fields do not suit `source`.
    Submission(const py::handle& fields, const SampleSource& source) {
        Memory memory;
        std::tie(indices_, memory, owner_, copy_, draw_numbers_) = fields.cast<
            std::tuple<IndexArray, Memory, py::object, std::shared_ptr<BatchCopy>, std::optional<NumberArray>>>();
        const auto count = static_cast<std::size_t>(indices_.size());
        for (std::size_t i = 0; i < count; ++i) check_index(*source.index, indices_.data()[i]);
        if (memory.size() != (count == 0 ? 0 : source.views.size())) {
            throw py::value_error("there must be memory for " + std::to_string(source.views.size()) + " views, got " +
                                  std::to_string(memory.size()));
        }
        for (std::size_t i = 0; i < memory.size(); ++i) {
            const auto [address, size] = memory[i];
            const std::size_t sample_bytes = source.views[i].sample_bytes;
            std::size_t expected = 0;
            if (!checked_multiply(count, sample_bytes, &expected) || size != expected) {
                throw py::value_error("the batch's memory must hold exactly " + std::to_string(count) + " samples of " +
                                      std::to_string(sample_bytes) + " bytes, got " + std::to_string(size) + " bytes");
            }
            images_.push_back(reinterpret_cast<std::uint8_t*>(address));
        }
        if (draw_numbers_ && draw_numbers_->size() != indices_.size()) {
            throw py::value_error("there must be " + std::to_string(count) +
                                  " draw_numbers, one for each sample, got " + std::to_string(draw_numbers_->size()));
        }
    }

    // Views this object.
    NewBatch batch() const {
        NewBatch batch{span_of(indices_), {images_.data(), images_.size()}, make_token(owner_), copy_};
        if (draw_numbers_) batch.draw_numbers = span_of(*draw_numbers_);
        return batch;
    }

  private:
    template <typename T>
    static Span<const T> span_of(const py::array_t<T, py::array::c_style>& array) {
        return {array.data(), static_cast<std::size_t>(array.size())};
    }

    IndexArray indices_;
    std::vector<std::uint8_t*> images_;
    py::object owner_;
    std::shared_ptr<BatchCopy> copy_;
    std::optional<NumberArray> draw_numbers_;
};

py::list objects_of(const std::vector<std::shared_ptr<void>>& tokens) {
    py::list objects;
    for (const std::shared_ptr<void>& token : tokens) objects.append(object_of(token));
    return objects;
}

// Empties the list. Cannot be interrupted: no Python code runs.
void empty(const py::list& list) {
    if (PyList_SetSlice(list.ptr(), 0, PyList_GET_SIZE(list.ptr()), nullptr) != 0) throw py::error_already_set();
}

// Time to wait before looking at signals again, or until `timeout_seconds` > 0 have passed since `begin`.
std::chrono::milliseconds patience_left(std::chrono::steady_clock::time_point begin, double timeout_seconds) {
    if (timeout_seconds <= 0) return kSignalPollInterval;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    const std::chrono::duration<double> left = std::chrono::duration<double>(timeout_seconds) - waited;
    return left < kSignalPollInterval ? std::chrono::ceil<std::chrono::milliseconds>(left) : kSignalPollInterval;
}

class IterationHandle {
  public:
    explicit IterationHandle(std::unique_ptr<Iteration> iteration) : iteration_(std::move(iteration)) {}
    ~IterationHandle() {
        if (is_forked()) return;
        (*iteration_)->cancel();
        run_deferred_releases();
    }

    // Empties `given` when the batch is queued. In one call, so that an interrupt comes before or after both.
    void submit(const py::tuple& fields, const py::list& given) {
        run_deferred_releases();
        const Submission submission(fields, iteration().front().source());
        iteration().submit(submission.batch());
        empty(given);
    }

    // Returns the next batch in order, or a FallbackTask (only without threads), or None when `timeout_seconds` > 0 has
    // passed, or a sentence if the engine was closed. Raises StopIteration when every submitted batch was taken.
    py::object next(double timeout_seconds) {
        run_deferred_releases();
        const auto begin = std::chrono::steady_clock::now();
        for (;;) {
            const std::chrono::milliseconds patience = patience_left(begin, timeout_seconds);
            if (patience.count() <= 0) return py::none();
            PendingSample needs_python;
            const std::shared_ptr<DrawLane> lane = iteration().current();
            const WaitResult result = without_gil([&] { return lane->wait(patience, &needs_python); });
            if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            switch (result) {
                case WaitResult::kReady: {
                    py::object batch = py::cast(std::make_unique<Batch>(lane));
                    if (batch.cast<Batch&>().take_ready(iteration())) {
                        run_deferred_releases();
                        return batch;
                    }
                    break;
                }
                case WaitResult::kNeedsPython:
                    return py::cast(std::make_unique<FallbackTask>(std::move(needs_python)));
                case WaitResult::kNothingInFlight:
                    throw py::stop_iteration();
                case WaitResult::kClosed:
                    return py::str("the loader was closed; iterate over it again to start anew");
                case WaitResult::kFault:
                    throw_fault(lane->fault());
                case WaitResult::kTimedOut:
                    break;
            }
        }
    }

    // The owners of the batches in flight that share random numbers with `batch`, in order.
    py::list owners_after(const Batch& batch) const {
        check_process(core());
        return objects_of(batch.lane().memory_in_flight());
    }

    // The owners of the first `count` batches in flight, in the order in which they will be taken.
    py::list owners_in_flight(std::size_t count) const { return objects_of(iteration().memory_in_flight(count)); }

    // Drops these batches and submits `again` instead, whose draws begin where the draws of `batch` ended. In one call,
    // so that an interrupt comes before or after it. Does nothing if that was done before, or if the engine was closed.
    // Without memory the iteration ends, because batches would be missing.
    void restart(const Batch& batch, const py::list& again) {
        check_process(core());
        const std::optional<TorchDraws> draws = batch.draws_after();
        if (!draws) return;
        const std::vector<Submission> submissions = checked(again);
        const std::shared_ptr<DrawLane> lane = iteration().restart(batch.lane(), *draws);
        if (lane == nullptr) return;
        whole_or_cancelled([&] { submit_to(*lane, submissions); });
        run_deferred_releases();
    }

    // Submits `again` instead of `batch`, which was taken last; `again` comes next then: Iteration::take_back. Lost
    // draws are (position, width, height). If draws have an order, the later batches, owners_after(), are dropped and
    // submitted again as `later`. Empties the lists in `taken`, which hold the taken objects. In one call, so that an
    // interrupt comes before or after all of it. Returns false if the engine was closed. Without memory the iteration
    // ends, because batches would come in another order.
    bool submit_again(const Batch& batch, const py::tuple& first, const LostDrawList& lost_draws, const py::list& later,
                      const std::vector<py::list>& taken) {
        run_deferred_releases();
        const Submission again(first, iteration().front().source());
        const std::vector<Submission> submissions = checked(later);
        const std::vector<LostDraws> lost = lost_draws_of(lost_draws);
        const std::shared_ptr<DrawLane> lane = batch.taken_back(iteration());
        if (lane == nullptr) return false;
        whole_or_cancelled([&] {
            lane->submit_first(again.batch(), {lost.data(), lost.size()});
            submit_to(*lane, submissions);
        });
        for (const py::list& list : taken) empty(list);
        return true;
    }

    // torch's generator of each worker before the first batch that was not taken; none if no draws are in order.
    std::vector<TorchDraws> draws_untaken() const { return iteration().draws_untaken(); }

    void begin_epoch() {
        if (iteration().batches_in_flight() != 0) throw std::logic_error("batches are in flight");
        iteration().begin_epoch();
    }

    void set_draws(const TorchDraws& draws) { iteration().front().set_draws(draws); }

    void cancel() {
        iteration().cancel();
        run_deferred_releases();
    }

    bool is_forked() const { return core().is_forked(); }

    std::size_t batches_in_flight() const { return iteration().batches_in_flight(); }

  private:
    const EngineCore& core() const noexcept { return (*iteration_)->front().core(); }
    // Throws in a forked child, see check_process(). The public functions call it before they take a lock, except for
    // run_deferred_releases(), which checks the process itself.
    Iteration& iteration() const {
        check_process(core());
        return **iteration_;
    }

    template <typename Submit>
    void whole_or_cancelled(Submit&& submit) {
        try {
            submit();
        } catch (const std::bad_alloc&) {
            iteration().cancel();
            throw;
        }
    }

    std::vector<Submission> checked(const py::list& items) const {
        std::vector<Submission> submissions;
        for (const py::handle& item : items) submissions.emplace_back(item, iteration().front().source());
        return submissions;
    }

    static void submit_to(DrawLane& lane, const std::vector<Submission>& submissions) {
        for (const Submission& submission : submissions) lane.submit(submission.batch());
    }

    LeakedAfterFork<std::unique_ptr<Iteration>> iteration_;
};

}  // namespace

void check_process(const EngineCore& core) {
    if (!core.is_forked()) return;
    throw std::runtime_error(
        "this loader was created in another process: a forked child has none of its threads. Create a new DataLoader "
        "in the child.");
}

py::object make_iteration_object(std::unique_ptr<Iteration> iteration) {
    return py::cast(std::make_unique<IterationHandle>(std::move(iteration)));
}

py::object next_fallback(EngineCore& core) {
    check_process(core);
    for (;;) {
        const std::optional<PendingSample> sample = without_gil([&] { return core.fallback().wait(); });
        if (!sample) return py::none();
        std::unique_ptr<FallbackTask> task;
        try {
            task = std::make_unique<FallbackTask>(*sample);
            return py::cast(std::move(task));
        } catch (const std::bad_alloc&) {
            if (task != nullptr) task->set_finished();
            sample->lane->fail(*sample, {StatusCode::kOutOfMemory, 0, 0, "no memory to decode the sample"}, nullptr);
        }
    }
}

void bind_iteration(py::module_& m) {
    Class<FallbackTask>(m, "FallbackTask")
        .def_property_readonly("path", &FallbackTask::path)
        .def_property_readonly("directory", &FallbackTask::directory)
        .def_property_readonly("reason", &FallbackTask::reason)
        .def("complete", &FallbackTask::complete, py::arg("pixels"), py::arg("width"), py::arg("height"))
        .def("fail", &FallbackTask::fail, py::arg("exception"));

    Class<Batch>(m, "Batch")
        .def("take_owner", &Batch::take_owner)
        .def_property_readonly("errors", &Batch::errors)
        .def_property_readonly("revived", &Batch::revived)
        .def_property_readonly("is_whole", &Batch::is_whole)
        .def("draws_before", &Batch::draws_before)
        .def("draws_after", &Batch::draws_after)
        .def("reports", &Batch::reports);

    Class<IterationHandle>(m, "Iteration")
        .def("submit", &IterationHandle::submit, py::arg("batch"), py::arg("given"))
        .def("owners_in_flight", &IterationHandle::owners_in_flight, py::arg("count"))
        .def("next", &IterationHandle::next, py::arg("timeout_seconds"))
        .def("owners_after", &IterationHandle::owners_after, py::arg("batch"))
        .def("restart", &IterationHandle::restart, py::arg("batch"), py::arg("again"))
        .def("submit_again", &IterationHandle::submit_again, py::arg("batch"), py::arg("again"), py::arg("lost_draws"),
             py::arg("later"), py::arg("taken"))
        .def("draws_untaken", &IterationHandle::draws_untaken)
        .def("begin_epoch", &IterationHandle::begin_epoch)
        .def("set_draws", &IterationHandle::set_draws, py::arg("draws"))
        .def("cancel", &IterationHandle::cancel)
        .def_property_readonly("is_forked", &IterationHandle::is_forked)
        .def_property_readonly("batches_in_flight", &IterationHandle::batches_in_flight);
}

}  // namespace fastload
