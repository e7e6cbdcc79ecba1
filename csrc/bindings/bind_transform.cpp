#include "bindings/bind_transform.h"

#include <pybind11/numpy.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "image/transform_executor.h"
#include "image/transform_plan.h"
#include "kernels/dispatch.h"

namespace fastload {
namespace {

namespace py = pybind11;

[[noreturn]] void reject(const std::string& name, const std::string& allowed, const py::handle& value) {
    throw py::value_error(name + " must be " + allowed + ", got " + std::string(py::repr(value)));
}

// One name of a closed list, as its value.
template <typename Value, std::size_t kCount>
Value choose(const std::string& name, const std::pair<const char*, Value> (&choices)[kCount], const py::handle& value) {
    std::string allowed = "one of ";
    for (const auto& [text, choice] : choices) {
        if (py::isinstance<py::str>(value) && value.cast<std::string>() == text) return choice;
        allowed += std::string(&text == &choices[0].first ? "\"" : ", \"") + text + "\"";
    }
    reject(name, allowed, value);
}

constexpr std::pair<const char*, TransformKind> kKinds[] = {
    {"random_resized_crop", TransformKind::kRandomResizedCrop}, {"resize", TransformKind::kResize},
    {"resize_shorter_side", TransformKind::kResizeShorterSide}, {"center_crop", TransformKind::kCenterCrop},
    {"horizontal_flip", TransformKind::kRandomHorizontalFlip},
};
constexpr std::pair<const char*, Interpolation> kInterpolations[] = {
    {"bilinear", Interpolation::kBilinear},
    {"bicubic", Interpolation::kBicubic},
};
constexpr std::pair<const char*, ResizeOrder> kResizeOrders[] = {
    {"horizontal_first", ResizeOrder::kHorizontalFirst},
    {"pillow12_2", ResizeOrder::kPillow12_2},
    {"pillow13", ResizeOrder::kPillow13},
};

// Reads the keys of one step's dict, each at most once; finish() refuses keys that nobody read.
class StepReader {
  public:
    StepReader(std::string name, const py::handle& step) : name_(std::move(name)) {
        if (!py::isinstance<py::dict>(step)) reject(name_, "a dict", step);
        step_ = py::reinterpret_borrow<py::dict>(step);
    }

    TransformKind kind() { return choose(name_ + ".kind", kKinds, take("kind")); }
    Interpolation interpolation() { return choose(name_ + ".interpolation", kInterpolations, take("interpolation")); }

    std::int32_t side(const char* key) {
        return static_cast<std::int32_t>(integer(key, take(key), 1, kMaxImageSide, "an int in 1..65535"));
    }

    std::int32_t optional_side(const char* key) {
        const py::object value = take(key);
        if (value.is_none()) return 0;
        return static_cast<std::int32_t>(integer(key, value, 1, kMaxImageSide, "None or an int in 1..65535"));
    }

    std::uint32_t position() {
        return static_cast<std::uint32_t>(
            integer("position", take("position"), 0, UINT32_MAX, "an int in 0..2**32 - 1"));
    }

    double number(const char* key) {
        const py::object value = take(key);
        return as_double(key, "a number", value, value);
    }

    void pair(const char* key, double (&numbers)[2]) {
        constexpr const char* kAllowed = "a pair of numbers";
        const py::object value = take(key);
        if (!py::isinstance<py::sequence>(value) || py::len(value) != 2) reject(name_of(key), kAllowed, value);
        const auto sequence = py::reinterpret_borrow<py::sequence>(value);
        for (std::size_t i = 0; i < 2; ++i) numbers[i] = as_double(key, kAllowed, sequence[i], value);
    }

    // "log_ratio" and, where torch's own exp is wanted, "torch_exp".
    LogRange log_range() {
        double bounds[2];
        pair("log_ratio", bounds);
        LogRange range{static_cast<float>(bounds[0]), static_cast<float>(bounds[1]), nullptr};
        if (step_.contains("torch_exp")) {
            const py::object exp = take("torch_exp");
            if (!py::isinstance<TorchExp>(exp)) reject(name_of("torch_exp"), "a TorchExp", exp);
            range.torch_exp = exp.cast<std::shared_ptr<TorchExp>>();
        }
        return range;
    }

    void finish() const {
        for (const auto& item : step_) {
            const std::string key = py::str(item.first);
            if (taken_.count(key) == 0) throw py::value_error(name_ + " has an unknown key \"" + key + "\"");
        }
    }

  private:
    std::string name_of(const char* key) const { return name_ + "." + key; }

    py::object take(const char* key) {
        if (!step_.contains(key)) throw py::value_error(name_ + " needs the key \"" + key + "\"");
        taken_.insert(key);
        return step_[key];
    }

    std::int64_t integer(const char* key, const py::object& value, std::int64_t least, std::int64_t most,
                         const char* allowed) const {
        const bool is_int = PyLong_Check(value.ptr()) != 0 && !PyBool_Check(value.ptr());
        int overflow = 0;
        const std::int64_t number = is_int ? PyLong_AsLongLongAndOverflow(value.ptr(), &overflow) : 0;
        if (!is_int || overflow != 0 || number < least || number > most) reject(name_of(key), allowed, value);
        return number;
    }

    double as_double(const char* key, const char* allowed, const py::object& number, const py::object& shown) const {
        const double result = PyFloat_AsDouble(number.ptr());
        if (PyErr_Occurred() != nullptr) {
            PyErr_Clear();
            reject(name_of(key), allowed, shown);
        }
        return result;
    }

    std::string name_;
    py::dict step_;
    std::set<std::string> taken_;
};

TransformStep read_step(std::size_t index, const py::handle& value) {
    StepReader reader("steps[" + std::to_string(index) + "]", value);
    TransformStep step;
    step.kind = reader.kind();
    step.position = reader.position();
    const bool has_size = step.kind == TransformKind::kRandomResizedCrop || step.kind == TransformKind::kResize ||
                          step.kind == TransformKind::kCenterCrop;
    if (has_size) {
        step.height = reader.side("height");
        step.width = reader.side("width");
    }
    if (step.kind == TransformKind::kRandomResizedCrop) {
        reader.pair("scale", step.box_rule.scale);
        reader.pair("ratio", step.box_rule.ratio);
        step.box_rule.log_ratio = reader.log_range();
    }
    if (step.kind == TransformKind::kResizeShorterSide) {
        step.size = reader.side("size");
        step.max_size = reader.optional_side("max_size");
    }
    if (step.kind == TransformKind::kRandomHorizontalFlip) {
        step.probability = reader.number("probability");
    } else if (step.kind != TransformKind::kCenterCrop) {
        step.interpolation = reader.interpolation();
    }
    reader.finish();
    return step;
}

std::shared_ptr<TransformPlan> create_plan(const py::list& steps, int element_size, bool channels_last,
                                           const py::object& table, const py::str& resize_order) {
    std::vector<TransformStep> native_steps;
    for (std::size_t i = 0; i < steps.size(); ++i) native_steps.push_back(read_step(i, steps[i]));
    OutputLayout layout;
    layout.element_size_bytes = element_size;
    layout.channels_last = channels_last;
    if (!table.is_none()) {
        if (!py::isinstance<py::bytes>(table)) reject("table", "bytes or None", table);
        const auto bytes = table.cast<std::string>();
        if (bytes.empty()) reject("table", "None or not empty", table);
        layout.table.assign(bytes.begin(), bytes.end());
    }
    std::string problem;
    auto plan = TransformPlan::create(std::move(native_steps), std::move(layout),
                                      choose("resize_order", kResizeOrders, resize_order), &problem);
    if (plan == nullptr) throw py::value_error(problem);
    return plan;
}

void check(const Status& status) {
    if (status.is_ok()) return;
    if (status.code == StatusCode::kOutOfMemory) throw std::bad_alloc();
    throw py::value_error(std::string(status_text(status.code)) + ": " + status.detail);
}

py::tuple step_as_tuple(const ResolvedStep& step) {
    switch (step.kind) {
        case ResolvedKind::kCrop: {
            const PaddedCrop& crop = step.crop;
            return py::make_tuple("crop", crop.inside.left, crop.inside.top, crop.inside.width, crop.inside.height,
                                  crop.pad_left, crop.pad_top, crop.pad_right, crop.pad_bottom);
        }
        case ResolvedKind::kResize: {
            const char* interpolation = step.interpolation == Interpolation::kBilinear ? "bilinear" : "bicubic";
            return py::make_tuple("resize", step.size.width, step.size.height, interpolation);
        }
        default:
            return py::make_tuple("hflip");
    }
}

py::list resolve(const TransformPlan& plan, DrawSource& draws, std::int32_t width, std::int32_t height) {
    ResolvedTransform resolved;
    check(plan.resolve(&draws, {width, height}, &resolved));
    return describe_steps(resolved);
}

using RgbArray = py::array_t<std::uint8_t>;

PackedImageView view_rgb(const RgbArray& rgb) {
    const bool is_hwc = rgb.ndim() == 3 && rgb.shape(2) == 3 && (rgb.flags() & py::array::c_style) != 0;
    if (!is_hwc || rgb.shape(0) > kMaxImageSide || rgb.shape(1) > kMaxImageSide) {
        throw py::value_error(
            "rgb must be a contiguous uint8 array of shape [height, width, 3] with sides up to 65535, "
            "got shape " +
            std::string(py::repr(rgb.attr("shape"))));
    }
    return {rgb.data(), static_cast<std::size_t>(3 * rgb.shape(1)), static_cast<std::int32_t>(rgb.shape(1)),
            static_cast<std::int32_t>(rgb.shape(0))};
}

Status transform_packed(const TransformPlan& plan, const PackedImageView& rgb, DrawSource* draws,
                        const KernelTable& kernels, void* destination) noexcept {
    TransformExecutor executor(kernels);
    StripImageView strips;
    ResolvedTransform resolved;
    Status status = executor.load_packed(rgb, &strips);
    if (status.is_ok()) status = plan.resolve(draws, {rgb.width, rgb.height}, &resolved);
    if (status.is_ok()) status = executor.run(plan, resolved, strips.crop(resolved.source_region), destination);
    return status;
}

py::bytes apply_transform(const TransformPlan& plan, const RgbArray& rgb, DrawSource& draws) {
    const KernelTable* kernels = select_kernel_table();
    if (kernels == nullptr) {
        throw py::value_error(std::string("FASTLOAD_SIMD must be one of: ") + available_kernel_tables());
    }
    const PackedImageView view = view_rgb(rgb);
    std::vector<std::uint64_t> sample((plan.sample_bytes() + 7) / 8);  // aligned for every element size
    Status status;
    {
        py::gil_scoped_release released;
        status = transform_packed(plan, view, &draws, *kernels, sample.data());
    }
    check(status);
    return {reinterpret_cast<const char*>(sample.data()), plan.sample_bytes()};
}

}  // namespace

py::list describe_steps(const ResolvedTransform& resolved) {
    py::list steps;
    for (const ResolvedStep& step : resolved.steps()) steps.append(step_as_tuple(step));
    return steps;
}

void bind_transform(py::module_& m) {
    py::class_<TransformPlan, std::shared_ptr<TransformPlan>>(
        m, "TransformPlan",
        "Geometric steps and the last write, checked and immutable. Raises ValueError where an argument makes no sense "
        "or the result has no fixed size.")
        .def(py::init(&create_plan), py::arg("steps"), py::kw_only(), py::arg("element_size"), py::arg("channels_last"),
             py::arg("table"), py::arg("resize_order"))
        .def_property_readonly("output_height", [](const TransformPlan& plan) { return plan.output_size().height; })
        .def_property_readonly("output_width", [](const TransformPlan& plan) { return plan.output_size().width; })
        .def_property_readonly("sample_bytes", &TransformPlan::sample_bytes)
        .def_property_readonly("is_random", &TransformPlan::is_random)
        .def("resolve", &resolve, py::arg("draws"), py::arg("width"), py::arg("height"),
             "The concrete steps for one sample: (\"crop\", left, top, width, height, pad_left, pad_top, pad_right, "
             "pad_bottom), (\"resize\", width, height, interpolation), (\"hflip\",).");
    m.def("apply_transform", &apply_transform, py::arg("plan"), py::arg("rgb").noconvert(), py::arg("draws"),
          "The bytes of one sample made from a whole decoded image (uint8 [height, width, 3]).");
}

}  // namespace fastload
