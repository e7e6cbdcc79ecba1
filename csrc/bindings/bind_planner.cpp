// What batches would be, found by the headers of their files: sizes of images, and the random choices for these.
#include "bindings/pybind.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/class.h"
#include "bindings/draw_numbers.h"
#include "bindings/without_gil.h"
#include "engine/queues/draw_planner.h"
#include "engine/sample/header_reader.h"

namespace py = pybind11;

namespace fastload {
namespace {

using IndexArray = py::array_t<std::int64_t, py::array::c_style>;
using SizeArray = py::array_t<std::int32_t, py::array::c_style>;

// In the place of a size.
constexpr ImageSize kForReferenceDecoder = {-1, -1};
constexpr ImageSize kFails = {0, 0};

Span<const std::int64_t> span_of(const IndexArray& indices) {
    return {indices.data(), static_cast<std::size_t>(indices.size())};
}

void check_indices(Span<const std::int64_t> indices, std::int64_t num_samples) {
    for (const std::int64_t index : indices) {
        if (index >= 0 && index < num_samples) continue;
        throw py::index_error("sample index " + std::to_string(index) + " is not in [0, " +
                              std::to_string(num_samples) + ")");
    }
}

ImageSize size_of(const Status& status, ImageSize size) {
    if (status.is_ok()) return size;
    return is_for_fallback(status.code) ? kForReferenceDecoder : kFails;
}

SizeArray header_sizes(const SampleIndex& index, const IndexArray& indices, std::uint64_t max_file_bytes,
                       std::uint64_t max_pixels, bool is_native_jpeg_allowed, const WorkingDirectory* directory) {
    check_indices(span_of(indices), index.num_samples());
    SizeArray sizes(std::vector<py::ssize_t>{indices.size(), 2});
    std::int32_t* next = sizes.mutable_data();
    without_gil([&] {
        HeaderReader reader(options_of(max_file_bytes, max_pixels, is_native_jpeg_allowed));
        PathBuffer buffer;
        for (const std::int64_t sample : span_of(indices)) {
            ImageSize found;
            const Status status = reader.read_size(index.path(sample, &buffer), &found, directory);
            const ImageSize size = size_of(status, found);
            *next++ = size.width;
            *next++ = size.height;
        }
        return true;
    });
    return sizes;
}

std::unique_ptr<DrawPlanner> make_planner(const std::vector<std::shared_ptr<TransformPlan>>& views, std::uint64_t seed,
                                          std::uint64_t epoch, const std::optional<TorchDraws>& draws,
                                          std::shared_ptr<FirstSteps> first_steps) {
    return std::make_unique<DrawPlanner>(
        SampleSource{nullptr, views_of(views), draws, seed, epoch, nullptr, std::move(first_steps)});
}

void plan(DrawPlanner& planner, const IndexArray& indices, const SizeArray& sizes, const LostDrawList& lost_draws,
          const std::optional<NumberArray>& draw_numbers) {
    if (sizes.ndim() != 2 || sizes.shape(0) != indices.size() || sizes.shape(1) != 2) {
        throw py::value_error("sizes must be an int32 array [samples, 2]: width and height");
    }
    std::vector<ImageSize> all;
    for (py::ssize_t i = 0; i < indices.size(); ++i) all.push_back({sizes.at(i, 0), sizes.at(i, 1)});
    const std::vector<LostDraws> lost = lost_draws_of(lost_draws);
    planner.plan(span_of(indices), {all.data(), all.size()}, {lost.data(), lost.size()},
                 numbers_of(draw_numbers, all.size()));
}

// For each sample that fails its position, and the size of its image where it has drawn.
py::list failed(const DrawPlanner& planner) {
    py::list failed;
    for (const SampleError& error : planner.batch().errors) {
        failed.append(py::make_tuple(error.position, drawn_size_of(planner.batch(), error)));
    }
    return failed;
}

// For each sample ((width, height), the steps of each view).
py::list reports(const DrawPlanner& planner) {
    py::list reports;
    for (const SampleReport& report : planner.reports()) {
        reports.append(
            py::make_tuple(py::make_tuple(report.source_size.width, report.source_size.height), list_views(report)));
    }
    return reports;
}

}  // namespace

void bind_planner(py::module_& m) {
    m.def(
        "header_sizes", &header_sizes, py::arg("index"), py::arg("indices"), py::kw_only(), py::arg("max_file_bytes"),
        py::arg("max_pixels"), py::arg("native_jpeg"), py::arg("directory") = py::none(),
        "Sizes of images from the headers of their files: int32 [samples, 2], width and height. (-1, -1) where Pillow "
        "has to say it, (0, 0) where the file cannot be read.");

    Class<DrawPlanner>(m, "DrawPlanner",
                       "The random choices of batches that are not loaded, one batch after the other.")
        .def(py::init(&make_planner), py::arg("views"), py::kw_only(), py::arg("seed") = 0, py::arg("epoch") = 0,
             py::arg("draws") = py::none(), py::arg("first_steps") = py::none())
        .def("plan", &plan, py::arg("indices"), py::arg("sizes"), py::arg("lost_draws") = LostDrawList(),
             py::arg("draw_numbers") = py::none())
        .def("take_back", &DrawPlanner::take_back)
        .def("reports", &reports)
        .def("failed", &failed)
        .def("revived", [](const DrawPlanner& planner) { return planner.batch().revived; })
        .def("draws", &DrawPlanner::draws,
             "Torch's generator before the next batch; None where no draws are in order.");
}

}  // namespace fastload
