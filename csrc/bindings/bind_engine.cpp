// The engine as Python sees it. Called once per batch, never per sample (but for samples that need the
// reference decoder). Every wait releases the GIL.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind_iteration.h"
#include "bindings/bindings.h"
#include "bindings/python_token.h"
#include "bindings/without_gil.h"
#include "engine/batch/buffer_pool.h"
#include "engine/engine.h"
#include "engine/fork_guard.h"
#include "engine/sample/native_sample_worker.h"

namespace py = pybind11;

namespace fastload {
namespace {

using Plans = std::vector<std::shared_ptr<TransformPlan>>;

constexpr double kLongestCloseSeconds = 3600;

class EngineHandle {
  public:
    EngineHandle(std::size_t num_threads, std::size_t max_free_buffers, std::uint64_t max_file_bytes,
                 std::uint64_t max_pixels, bool is_native_jpeg_allowed)
        : pool_(max_free_buffers),
          engine_(num_threads, worker_factory(max_file_bytes, max_pixels, is_native_jpeg_allowed)) {}
    EngineHandle(const EngineHandle&) = delete;  // one owner of the threads
    EngineHandle& operator=(const EngineHandle&) = delete;

    std::unique_ptr<HostBuffer> allocate(std::size_t size_bytes) {
        check_process(engine_.core());
        auto host_buffer = std::make_unique<HostBuffer>();
        host_buffer->buffer = without_gil([&] { return pool_.allocate(std::max<std::size_t>(size_bytes, 1)); });
        if (host_buffer->buffer == nullptr) throw std::bad_alloc();
        return host_buffer;
    }

    py::object open_iteration(std::shared_ptr<SampleIndex> index, const Plans& views, std::uint64_t seed,
                              std::uint64_t epoch) {
        check_process(engine_.core());
        std::vector<SampleSource> sources{{std::move(index), views_of(views), std::nullopt, seed, epoch}};
        return make_iteration_object(engine_.open_iteration(std::move(sources)));
    }

    py::object open_torch_iteration(const std::shared_ptr<SampleIndex>& index, const Plans& views,
                                    const std::vector<TorchDraws>& draws) {
        check_process(engine_.core());
        if (draws.empty()) throw py::value_error("draws must hold the generator of at least one lane");
        std::vector<SampleSource> sources;
        for (const TorchDraws& generator : draws) {
            sources.push_back({index, views_of(views), generator, 0, 0});
        }
        return make_iteration_object(engine_.open_iteration(std::move(sources)));
    }

    py::object next_fallback() { return fastload::next_fallback(engine_.core()); }

    bool close(double timeout_seconds) {
        check_process(engine_.core());
        const double seconds = timeout_seconds > 0 ? std::min(timeout_seconds, kLongestCloseSeconds) : 0;
        const auto timeout = std::chrono::milliseconds(std::llround(seconds * 1000));
        const bool are_all_gone = without_gil([&] { return engine_.close(timeout); });
        run_deferred_releases();
        return are_all_gone;
    }

    py::dict stats() {
        check_process(engine_.core());
        const EngineCounters counters = engine_.core().stats().snapshot();
        const auto seconds = [](std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
        py::dict stages;
        stages["read"] = seconds(counters.stages.read_ns);
        stages["header"] = seconds(counters.stages.header_ns);
        stages["decode"] = seconds(counters.stages.decode_ns);
        stages["transform"] = seconds(counters.stages.transform_ns);
        stages["fallback"] = seconds(counters.stages.fallback_ns);
        std::size_t in_flight = 0;
        std::size_t ready = 0;
        for (const std::shared_ptr<EngineClient>& client : engine_.core().clients()) {
            in_flight += client->batches_in_flight();
            ready += client->batches_ready();
        }
        py::dict reasons;
        for (const auto& [reason, count] : counters.fallback_reasons) reasons[py::str(reason)] = count;
        py::dict stats;
        stats["samples_native"] = counters.samples_native;
        stats["samples_fallback"] = counters.samples_fallback;
        stats["samples_failed"] = counters.samples_failed;
        stats["batches_delivered"] = counters.batches_delivered;
        stats["bytes_read"] = counters.stages.bytes_read;
        stats["fallback_reasons"] = std::move(reasons);
        stats["stage_seconds"] = std::move(stages);
        stats["consumer_wait_seconds"] = seconds(counters.consumer_wait_ns);
        stats["worker_wait_seconds"] = seconds(counters.worker_wait_ns);
        stats["bytes_held"] = pool_.bytes_held();
        stats["scratch_bytes"] = counters.scratch_bytes + engine_.core().files().spare_bytes();
        stats["batches_in_flight"] = in_flight;
        stats["queue_depth"] = ready;
        stats["fallback_queue_depth"] = engine_.core().fallback().size();
        return stats;
    }

    bool is_forked() const { return engine_.core().is_forked(); }
    // Neither closed nor ended by a fault.
    bool is_running() const { return !is_forked() && engine_.core().is_running(); }

  private:
    static std::vector<View> views_of(const Plans& plans) {
        if (plans.empty()) throw py::value_error("views must hold at least one plan");
        std::vector<View> views;
        for (const std::shared_ptr<TransformPlan>& plan : plans) {
            if (!plan->has_fixed_size()) throw py::value_error("plan must give samples of one size");
            views.push_back({plan, plan->sample_bytes()});
        }
        return views;
    }

    static SampleWorkerFactory worker_factory(std::uint64_t max_file_bytes, std::uint64_t max_pixels,
                                              bool is_native_jpeg_allowed) {
        const KernelTable& kernels = active_kernel_table();
        NativeWorkerOptions options;
        options.max_file_bytes = max_file_bytes;
        options.decode_limits.max_pixels = max_pixels;
        options.is_native_jpeg_allowed = is_native_jpeg_allowed;
        return [&kernels, options] { return std::make_unique<NativeSampleWorker>(kernels, options); };
    }

    BufferPool pool_;
    Engine engine_;
};

}  // namespace

void bind_engine(py::module_& m) {
    if (!install_fork_counter()) throw std::bad_alloc();
    bind_iteration(m);

    py::class_<EngineHandle>(m, "Engine")
        .def(py::init<std::size_t, std::size_t, std::uint64_t, std::uint64_t, bool>(), py::kw_only(),
             py::arg("num_threads"), py::arg("max_free_buffers"), py::arg("max_file_bytes"), py::arg("max_pixels"),
             py::arg("native_jpeg"))
        .def("allocate", &EngineHandle::allocate, py::arg("nbytes"))
        .def("open_iteration", &EngineHandle::open_iteration, py::arg("index"), py::arg("views"), py::arg("seed"),
             py::arg("epoch"))
        .def("open_torch_iteration", &EngineHandle::open_torch_iteration, py::arg("index"), py::arg("views"),
             py::arg("draws"))
        .def("next_fallback", &EngineHandle::next_fallback)
        .def("close", &EngineHandle::close, py::arg("timeout_seconds") = 0.0)
        .def("stats", &EngineHandle::stats)
        .def_property_readonly("is_forked", &EngineHandle::is_forked)
        .def_property_readonly("is_running", &EngineHandle::is_running);
}

}  // namespace fastload
