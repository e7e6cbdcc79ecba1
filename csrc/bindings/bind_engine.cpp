// Makers of samples: the engine, whose batches are in bind_iteration.cpp, and decoders of single samples. The engine is
// called once per batch, never per sample (except for samples that need the reference decoder). Every wait releases the
// GIL.
#include "bindings/pybind.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/class.h"
#include "bindings/gil_turns.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/batch/buffer_pool.h"
#include "engine/engine.h"
#include "engine/fork_guard.h"
#include "engine/iteration.h"
#include "engine/sample/native_sample_worker.h"
#include "engine/sample/sample_decoder.h"
#include "io/file_reader.h"
#include "python/without_gil.h"

namespace py = pybind11;

namespace fastload {
namespace {

using Plans = std::vector<std::shared_ptr<TransformPlan>>;

constexpr double kLongestCloseSeconds = 3600;

struct HostBuffer {
    SharedBytes memory;
};

std::unique_ptr<HostBuffer> allocate_from(BufferPool& pool, std::size_t size_bytes) {
    auto host_buffer = std::make_unique<HostBuffer>();
    host_buffer->memory = without_gil([&] { return pool.allocate(std::max<std::size_t>(size_bytes, 1)); });
    if (host_buffer->memory == nullptr) throw std::bad_alloc();
    return host_buffer;
}

double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

// All stages except the reference decoder.
py::dict describe_stages(const SampleTimings& timings) {
    py::dict stages;
    stages["read"] = seconds(timings.read_ns);
    stages["header"] = seconds(timings.header_ns);
    stages["cache"] = seconds(timings.cache_ns);
    stages["decode"] = seconds(timings.decode_ns);
    stages["transform"] = seconds(timings.transform_ns);
    return stages;
}

std::shared_ptr<FirstSteps> make_first_steps(std::shared_ptr<TransformPlan> plan, const py::bytes& hash) {
    const ByteSpan bytes = span_of(hash);
    auto steps = std::make_shared<FirstSteps>();
    const OutputLayout& layout = plan->layout();
    if (bytes.size() != steps->hash.size()) throw py::value_error("hash must be 16 bytes");
    if (plan->is_random() || layout.channels_last || layout.is_bgr || !layout.table.empty()) {
        throw py::value_error("plan must make planar RGB pixels without draws");
    }
    std::copy(bytes.begin(), bytes.end(), steps->hash.begin());
    steps->plan = std::move(plan);
    return steps;
}

// Every plan makes samples of one size.
std::vector<View> views_of(const Plans& plans) {
    if (plans.empty()) throw py::value_error("views must hold at least one plan");
    std::vector<View> views;
    for (const std::shared_ptr<TransformPlan>& plan : plans) {
        if (!plan->has_fixed_size()) throw py::value_error("plan must give samples of one size");
        views.push_back({plan, plan->sample_bytes()});
    }
    return views;
}

class EngineHandle {
  public:
    EngineHandle(std::size_t num_threads, std::size_t max_free_buffers, std::uint64_t max_file_bytes,
                 std::uint64_t max_pixels, bool is_native_jpeg_allowed, std::shared_ptr<DecodeCache> cache)
        : pool_(std::make_shared<BufferPool>(max_free_buffers)),
          engine_(num_threads,
                  worker_factory(options_of(max_file_bytes, max_pixels, is_native_jpeg_allowed, std::move(cache)))) {}

    std::unique_ptr<HostBuffer> allocate(std::size_t size_bytes) {
        check_process(engine_.core());
        return allocate_from(*pool_, size_bytes);
    }

    // `draws` is the generator of each lane; none if the draws come from the counter, which `seed` and `epoch` name.
    py::object open_iteration(const std::shared_ptr<SampleIndex>& index, const Plans& views, std::uint64_t seed,
                              std::uint64_t epoch, const std::vector<TorchDraws>& draws, std::size_t first_lane,
                              const std::shared_ptr<WorkingDirectory>& directory,
                              const std::shared_ptr<FirstSteps>& first_steps) {
        check_process(engine_.core());
        const std::size_t num_lanes = std::max<std::size_t>(draws.size(), 1);
        if (first_lane >= num_lanes) throw py::value_error("first_lane must be one of the lanes");
        const SampleSource source = {index, views_of(views), std::nullopt, seed, epoch, directory, first_steps};
        std::vector<SampleSource> sources(num_lanes, source);
        for (std::size_t lane = 0; lane < draws.size(); ++lane) sources[lane].torch_draws = draws[lane];
        return make_iteration_object(
            std::make_unique<Iteration>(engine_.shared_core(), std::move(sources), first_lane));
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
        py::dict stages = describe_stages(counters.stages);
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
        stats["worker_wait_seconds"] = seconds(counters.worker_wait_ns);
        stats["bytes_held"] = pool_->bytes_held();
        stats["scratch_bytes"] = counters.scratch_bytes + engine_.core().files().spare_bytes();
        stats["batches_in_flight"] = in_flight;
        stats["queue_depth"] = ready;
        stats["fallback_queue_depth"] = engine_.core().fallback().size();
        return stats;
    }

    bool is_forked() const { return engine_.core().is_forked(); }
    // True unless it is closed or has ended by a fault.
    bool is_running() const { return !is_forked() && engine_.core().is_running(); }

  private:
    static SampleWorkerFactory worker_factory(const NativeWorkerOptions& options) {
        const KernelTable& kernels = active_kernel_table();
        return [&kernels, options] { return std::make_unique<NativeSampleWorker>(kernels, options); };
    }

    const std::shared_ptr<BufferPool> pool_;
    Engine engine_;
};

// For the slot bf_getbuffer; pybind11's would allocate.
int view_host_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
    const Span<std::uint8_t>& bytes = *py::handle(self).cast<HostBuffer&>().memory;
    return PyBuffer_FillInfo(view, self, bytes.data(), static_cast<py::ssize_t>(bytes.size()), 0, flags);
}

// The object that holds the bytes of a sample.
py::capsule owner_of(DecodedSample* sample, std::unique_ptr<BatchRows::Token> token) {
    if (token != nullptr) {
        const py::capsule owner(token.get(), [](void* held) { delete static_cast<BatchRows::Token*>(held); });
        token.release();
        return owner;
    }
    const py::capsule owner(sample->bytes.get(), [](void* memory) { delete[] static_cast<std::uint8_t*>(memory); });
    sample->bytes.release();
    return owner;
}

// Elements are bytes: [height, width, 3 * element size], or [3, height, width * element size]. The token belongs to the
// row that has the sample.
py::array_t<std::uint8_t> array_of(DecodedSample sample, const OutputLayout& layout,
                                   std::unique_ptr<BatchRows::Token> token) {
    const py::ssize_t width = sample.size.width;
    const py::ssize_t height = sample.size.height;
    const py::ssize_t element_bytes = layout.element_size_bytes;
    std::vector<py::ssize_t> shape = {3, height, width * element_bytes};
    if (layout.channels_last) shape = {height, width, 3 * element_bytes};
    std::uint8_t* const bytes = sample.is_placed() ? sample.place.data() : sample.bytes.get();
    const py::capsule owner = owner_of(&sample, std::move(token));
    return py::array_t<std::uint8_t>(std::move(shape), bytes, owner);
}

// One plan, or one for each EXIF orientation.
using GivenPlans = std::variant<std::shared_ptr<TransformPlan>, std::array<std::shared_ptr<TransformPlan>, 8>>;

std::vector<SampleDecoder::Plan> plans_of(const GivenPlans& given) {
    if (const auto* const one = std::get_if<0>(&given)) return {*one};
    const auto& oriented = std::get<1>(given);
    return {oriented.begin(), oriented.end()};
}

class SampleDecoderHandle {
  public:
    using Steps = std::shared_ptr<FirstSteps>;

    SampleDecoderHandle(std::uint64_t max_file_bytes, std::uint64_t max_pixels, bool is_native_jpeg_allowed,
                        std::shared_ptr<DecodeCache> cache)
        : decoder_(active_kernel_table(),
                   options_of(max_file_bytes, max_pixels, is_native_jpeg_allowed, std::move(cache))),
          max_file_bytes_(max_file_bytes) {}
    SampleDecoderHandle(const SampleDecoderHandle&) = delete;  // scratch memory has one owner
    SampleDecoderHandle& operator=(const SampleDecoderHandle&) = delete;

    py::object run_file(const py::bytes& path, const GivenPlans& given, DrawSource& draws,
                        const WorkingDirectory* directory, const Steps& first_steps) {
        const std::vector<SampleDecoder::Plan> plans = plans_of(given);
        return run(*plans.front(), [&](DecodedSample* sample) {
            return decoder_.run(span_of(path), {plans.data(), plans.size()}, &draws, sample, directory, first_steps);
        });
    }

    // `opened` is the result of read_open(), or empty.
    py::object run_bytes(const py::bytes& contents, const GivenPlans& given, DrawSource& draws, const BatchRows* rows,
                         std::size_t row, const py::bytes& opened) {
        const std::vector<SampleDecoder::Plan> plans = plans_of(given);
        FileVersion version;
        const ByteSpan file = span_of(opened);
        const bool is_of_file = file.size() == sizeof version;
        if (is_of_file) std::memcpy(&version, file.data(), sizeof version);
        const auto make = [&](DecodedSample* sample) {
            return decoder_.run_with_contents(span_of(contents), {plans.data(), plans.size()}, &draws, sample,
                                              is_of_file ? &version : nullptr);
        };
        return run(*plans.front(), make, rows, row);
    }

    py::object run_pixels(const py::buffer& pixels, std::int32_t width, std::int32_t height,
                          const std::shared_ptr<TransformPlan>& plan, DrawSource& draws, const BatchRows* rows,
                          std::size_t row, const Steps& first_steps) {
        const PackedImageView rgb = view_packed(pixels, width, height);
        const auto make = [&](DecodedSample* sample) {
            return decoder_.run_with_pixels(rgb, plan, &draws, sample, first_steps);
        };
        return run(*plan, make, rows, row);
    }

    py::object check_bytes(const py::bytes& contents) {
        return facts_of([&](ImageInfo* info, std::size_t* end_offset) {
            return decoder_.check(span_of(contents), info, end_offset);
        });
    }

    // Returns (contents, metadata or None, the argument for run_bytes()), or None if the file cannot be read.
    py::object read_open(int descriptor, const py::bytes& path) {
        FileFacts file;
        // The thread keeps its turn: the file's opener has just asked for the same, so this seldom takes long.
        const Status found = without_gil([&] { return find_open_facts(descriptor, max_file_bytes_, &file); });
        if (!found.is_ok()) return py::none();
        const std::uint64_t size = file.size;
        auto contents =
            py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<py::ssize_t>(size)));
        if (!contents) throw py::error_already_set();
        auto* const bytes = reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(contents.ptr()));
        FileVersion version;
        bool is_of_file = false;
        bool is_read = false;
        const ByteSpan name = span_of(path);
        const py::object facts = facts_of([&](ImageInfo* info, std::size_t* end_offset) {
            is_of_file = !name.is_empty() && decoder_.find_opened(descriptor, name, &version);
            const Status read = read_open_file(descriptor, bytes, size);
            is_read = read.is_ok();
            return is_read ? decoder_.check({bytes, size}, info, end_offset) : read;
        });
        if (!is_read) return py::none();
        const py::bytes opened(reinterpret_cast<const char*>(&version), is_of_file ? sizeof version : 0);
        return py::make_tuple(contents, facts, opened);
    }

    const char* fallback_reason() const noexcept { return fallback_reason_; }
    bool keeps_info() const noexcept { return decoder_.keeps_info(); }

    py::dict take_counters() {
        const SampleTimings timings = decoder_.take_timings();
        py::dict counters;
        counters["bytes_read"] = timings.bytes_read;
        counters["stage_seconds"] = describe_stages(timings);
        return counters;
    }

  private:
    // Returns the result of `call()`, made without the GIL.
    template <typename Call>
    Status at_work(Call&& call) {
        if (is_busy_) throw std::logic_error("this decoder is at work in another thread");
        is_busy_ = true;
        const Status status = between_turns(std::forward<Call>(call));
        is_busy_ = false;
        return status;
    }

    // Returns the result of `check(info, end_offset)`, or None.
    template <typename Check>
    py::object facts_of(Check&& check) {
        ImageInfo info;
        std::size_t end_offset = 0;
        const Status status = at_work([&] { return check(&info, &end_offset); });
        if (status.is_ok()) return py::make_tuple(info.size.width, info.size.height, info.components, end_offset);
        fallback_reason_ = status.detail;
        return py::none();
    }

    // Makes a sample with `make(sample)`, in `row` of `rows` if it fits and nothing else refers to that row.
    template <typename Make>
    py::object run(const TransformPlan& plan, Make&& make, const BatchRows* rows = nullptr, std::size_t row = 0) {
        DecodedSample sample;
        std::unique_ptr<BatchRows::Token> token;
        if (rows != nullptr && row < rows->count() && !rows->is_held(row)) {
            token = rows->take(row);
            sample.place = rows->row(row);
        }
        const Status status = at_work([&] { return make(&sample); });
        if (is_for_fallback(status.code)) {
            fallback_reason_ = status.detail;
            return py::none();
        }
        if (!status.is_ok()) return describe_failure(status);
        if (!sample.is_placed()) token.reset();
        return array_of(std::move(sample), plan.layout(), std::move(token));
    }

    SampleDecoder decoder_;
    std::uint64_t max_file_bytes_;
    const char* fallback_reason_ = "";
    bool is_busy_ = false;  // guarded by the GIL
};

}  // namespace

NativeWorkerOptions options_of(std::uint64_t max_file_bytes, std::uint64_t max_pixels, bool is_native_jpeg_allowed,
                               std::shared_ptr<DecodeCache> cache) {
    NativeWorkerOptions options;
    options.max_file_bytes = max_file_bytes;
    options.decode_limits.max_pixels = max_pixels;
    options.is_native_jpeg_allowed = is_native_jpeg_allowed;
    options.cache = std::move(cache);
    return options;
}

py::object make_host_buffer(SharedBytes memory) {
    return py::cast(std::make_unique<HostBuffer>(HostBuffer{std::move(memory)}));
}

void bind_engine(py::module_& m) {
    if (!install_fork_counter()) throw std::bad_alloc();
    Class<HostBuffer> host_buffer(m, "HostBuffer", py::buffer_protocol());
    reinterpret_cast<PyHeapTypeObject*>(host_buffer.ptr())->as_buffer = {&view_host_buffer, nullptr};
    host_buffer
        .def_property_readonly(
            "address", [](const HostBuffer& host) { return reinterpret_cast<std::uintptr_t>(host.memory->data()); })
        .def_property_readonly("nbytes", [](const HostBuffer& host) { return host.memory->size(); });

    Class<BatchRows>(m, "BatchRows")
        .def(py::init([](const HostBuffer& host, std::size_t num_rows) {
                 if (num_rows == 0 || host.memory->size() % num_rows != 0) {
                     throw py::value_error("the rows must fill the buffer");
                 }
                 return BatchRows(host.memory, num_rows);
             }),
             py::arg("buffer"), py::arg("num_rows"))
        .def("is_held", [](const BatchRows& rows, std::size_t row) { return row < rows.count() && rows.is_held(row); })
        .def_property_readonly("num_held", &BatchRows::num_held);

    Class<BufferPool, std::shared_ptr<BufferPool>>(m, "BufferPool")
        .def(py::init<std::size_t>(), py::arg("max_free_buffers"))
        .def("allocate", &allocate_from, py::arg("nbytes"))
        .def_property_readonly("bytes_held", &BufferPool::bytes_held);

    Class<FirstSteps, std::shared_ptr<FirstSteps>>(m, "FirstSteps")
        .def(py::init(&make_first_steps), py::arg("plan"), py::arg("hash"));
    Class<EngineHandle>(m, "Engine")
        .def(py::init<std::size_t, std::size_t, std::uint64_t, std::uint64_t, bool, std::shared_ptr<DecodeCache>>(),
             py::kw_only(), py::arg("num_threads"), py::arg("max_free_buffers"), py::arg("max_file_bytes"),
             py::arg("max_pixels"), py::arg("native_jpeg"), py::arg("cache") = py::none())
        .def("allocate", &EngineHandle::allocate, py::arg("nbytes"))
        .def("open_iteration", &EngineHandle::open_iteration, py::arg("index"), py::arg("views"), py::arg("seed"),
             py::arg("epoch"), py::arg("draws") = std::vector<TorchDraws>(), py::arg("first_lane") = 0,
             py::arg("directory") = py::none(), py::arg("first_steps") = py::none())
        .def("next_fallback", &EngineHandle::next_fallback)
        .def("close", &EngineHandle::close, py::arg("timeout_seconds") = 0.0)
        .def("stats", &EngineHandle::stats)
        .def_property_readonly("is_forked", &EngineHandle::is_forked)
        .def_property_readonly("is_running", &EngineHandle::is_running);
}

void bind_decoders(py::module_& m) {
    Class<SampleDecoderHandle>(
        m, "SampleDecoder",
        "Reads, decodes and transforms single samples in the calling thread without the GIL. One "
        "thread uses it.\n\n"
        "A sample is a new array of bytes: [height, width, 3 * element size] if the plan is "
        "channels_last, else [3, height, width * element size]. The result is None if Pillow "
        "has to decode (call run_pixels), and a dict with the reason if there is no sample.")
        .def(py::init<std::uint64_t, std::uint64_t, bool, std::shared_ptr<DecodeCache>>(), py::kw_only(),
             py::arg("max_file_bytes"), py::arg("max_pixels"), py::arg("native_jpeg"), py::arg("cache") = py::none())
        .def("run_file", &SampleDecoderHandle::run_file, py::arg("path"), py::arg("plans"), py::arg("draws"),
             py::arg("directory") = py::none(), py::arg("first_steps") = py::none())
        .def("run_bytes", &SampleDecoderHandle::run_bytes, py::arg("contents"), py::arg("plans"), py::arg("draws"),
             py::arg("rows") = py::none(), py::arg("row") = 0, py::arg("opened") = py::bytes())
        .def("run_pixels", &SampleDecoderHandle::run_pixels, py::arg("pixels"), py::arg("width"), py::arg("height"),
             py::arg("plan"), py::arg("draws"), py::arg("rows") = py::none(), py::arg("row") = 0,
             py::arg("first_steps") = py::none())
        .def("check_bytes", &SampleDecoderHandle::check_bytes, py::arg("contents"),
             "Checks, without decoding, that Pillow decodes a file with these contents. Returns (width, height, "
             "number of components, position after its EOI), or None if only Pillow can tell.")
        .def("read_open", &SampleDecoderHandle::read_open, py::arg("descriptor"), py::arg("path") = py::bytes(),
             "Reads all of an open regular file, independent of its position. Returns (contents, the result of "
             "check_bytes for them, the argument `opened` of run_bytes for a file opened by this path), or None if it "
             "cannot be read or has more than max_file_bytes.")
        .def_property_readonly("fallback_reason", &SampleDecoderHandle::fallback_reason)
        .def_property_readonly("keeps_info", &SampleDecoderHandle::keeps_info,
                               "Whether torchvision would still have Image.info after the last run.")
        .def("take_counters", &SampleDecoderHandle::take_counters,
             "Returns bytes_read and stage_seconds since the last call.");
}

}  // namespace fastload
