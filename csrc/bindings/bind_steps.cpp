// The steps of pipelines, one class for each, whose attributes are its arguments, and the plans made of them.
// fastload/_core.pyi lists them.
#include "bindings/pybind.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/enum_names.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "image/blur/box_blur.h"
#include "image/plan/resolved_transform.h"
#include "image/plan/step.h"
#include "image/plan/transform_plan.h"
#include "image/random/draw_source.h"
#include "image/resize/resize_plan.h"
#include "image/steps/affine.h"
#include "image/steps/blurs.h"
#include "image/steps/color_jitter.h"
#include "image/steps/crop.h"
#include "image/steps/hue.h"
#include "image/steps/pad.h"
#include "image/steps/point_ops.h"
#include "image/steps/policies.h"
#include "image/steps/random_apply.h"
#include "image/steps/random_erasing.h"
#include "image/steps/resize.h"
#include "image/steps/saturation.h"
#include "image/steps/sharpness.h"
#include "image/steps/transpositions.h"

namespace py = pybind11;

// Conversions of step arguments from and to Python types.
namespace pybind11::detail {

// One of an enum's names. ValueError for any other object.
template <typename Enum>
class word_caster {
  public:
    PYBIND11_TYPE_CASTER(Enum, const_name("str"));

    bool load(handle source, bool) {
        std::string allowed;
        for (const auto& [name, named] : fastload::EnumNames<Enum>::kNames) {
            if (isinstance<str>(source) && source.cast<std::string>() == name) {
                value = named;
                return true;
            }
            allowed += std::string(allowed.empty() ? "\"" : ", \"") + name + "\"";
        }
        throw value_error(std::string(fastload::EnumNames<Enum>::kArgument) + " must be one of " + allowed + ", got " +
                          std::string(repr(source)));
    }

    static handle cast(Enum word, return_value_policy, handle) { return str(fastload::name_of(word)).release(); }
};

template <>
class type_caster<fastload::Interpolation> : public word_caster<fastload::Interpolation> {};
template <>
class type_caster<fastload::PaddingMode> : public word_caster<fastload::PaddingMode> {};
template <>
class type_caster<fastload::ResizeOrder> : public word_caster<fastload::ResizeOrder> {};
template <>
class type_caster<fastload::TorchvisionFamily> : public word_caster<fastload::TorchvisionFamily> {};

template <>
class type_caster<std::vector<std::byte>> {
  public:
    PYBIND11_TYPE_CASTER(std::vector<std::byte>, const_name("bytes"));

    bool load(handle source, bool) {
        if (!isinstance<bytes>(source)) return false;
        const auto text = source.cast<std::string>();
        const auto* first = reinterpret_cast<const std::byte*>(text.data());
        value.assign(first, first + text.size());
        return true;
    }

    static handle cast(const std::vector<std::byte>& elements, return_value_policy, handle) {
        return bytes(reinterpret_cast<const char*>(elements.data()), elements.size()).release();
    }
};

// (position, step)
template <>
class type_caster<fastload::PlacedStep> {
  public:
    PYBIND11_TYPE_CASTER(fastload::PlacedStep, const_name("tuple[int, Step]"));

    bool load(handle source, bool convert) {
        make_caster<std::pair<std::uint32_t, std::shared_ptr<fastload::Step>>> placed;
        if (!placed.load(source, convert)) return false;
        auto [position, step] = cast_op<std::pair<std::uint32_t, std::shared_ptr<fastload::Step>>>(placed);
        value = {position, std::move(step)};
        return value.step != nullptr;
    }

    static handle cast(const fastload::PlacedStep& placed, return_value_policy, handle) {
        return pybind11::make_tuple(placed.position, std::const_pointer_cast<fastload::Step>(placed.step)).release();
    }
};

}  // namespace pybind11::detail

namespace fastload {
namespace {

bool are_equal(const py::object& self, const py::object& other) {
    if (!py::type::of(self).is(py::type::of(other))) return false;
    for (const py::handle name : self.attr("_fields")) {
        if (!py::getattr(self, name).equal(py::getattr(other, name))) return false;
    }
    return true;
}

// The call that made it: "Resize(height=224, width=224, interpolation='bilinear')".
std::string describe(const py::object& self) {
    std::string arguments;
    for (const py::handle name : self.attr("_fields")) {
        if (!arguments.empty()) arguments += ", ";
        arguments += std::string(py::str(name)) + "=" + std::string(py::repr(py::getattr(self, name)));
    }
    return std::string(py::str(py::type::of(self).attr("__name__"))) + "(" + arguments + ")";
}

// Compares and shows objects of `base` and its subclasses by their arguments.
void compare_by_fields(const py::object& base) {
    base.attr("__eq__") = py::cpp_function(&are_equal, py::name("__eq__"), py::is_method(base));
    base.attr("__hash__") = py::none();
    base.attr("__repr__") = py::cpp_function(&describe, py::name("__repr__"), py::is_method(base));
}

// A read-only attribute. Outside of the templates: compilers need long for a property per attribute.
void add_attribute(const py::object& bound, const char* name, py::object (*get)(py::handle self)) {
    const py::object property = py::module_::import("builtins").attr("property");
    bound.attr(name) = property(py::cpp_function([get](py::handle self) { return get(self); }, py::is_method(bound)));
}

// The argument `kMember` of a class.
template <auto kMember>
struct Field {
    const char* name;
};

template <auto kMember>
Field<kMember> field(const char* name) {
    return {name};
}

// Adds keyword-only arguments to `bound`, which become attributes. Raises ValueError if check() rejects one.
template <typename Bound, auto... kMembers>
void bind_fields(Bound bound, Field<kMembers>... fields) {
    using Type = typename Bound::type;
    const auto construct = [](std::decay_t<decltype(std::declval<Type>().*kMembers)>... values) {
        auto made = std::make_shared<Type>();
        ((*made.*kMembers = std::move(values)), ...);
        const std::string problem = made->check();
        if (!problem.empty()) throw py::value_error(problem);
        return made;
    };
    if constexpr (sizeof...(kMembers) == 0) {
        bound.def(py::init(construct));
    } else {
        bound.def(py::init(construct), py::kw_only(), py::arg(fields.name)...);
    }
    (add_attribute(bound, fields.name,
                   [](py::handle self) -> py::object { return py::cast(self.cast<const Type&>().*kMembers); }),
     ...);
    bound.attr("_fields") = py::make_tuple(fields.name...);
}

template <typename Kind>
using StepClass = Class<Kind, Step, std::shared_ptr<Kind>>;
template <typename Kind>
using OpClass = Class<Kind, PixelOp, std::shared_ptr<Kind>>;

void bind_pixel_ops(py::module_& m) {
    bind_fields(OpClass<Identity>(m, "Identity"));
    bind_fields(OpClass<Brightness>(m, "Brightness"), field<&Brightness::factor>("factor"));
    bind_fields(OpClass<Contrast>(m, "Contrast"), field<&Contrast::factor>("factor"));
    bind_fields(OpClass<Saturation>(m, "Saturation"), field<&Saturation::factor>("factor"));
    bind_fields(OpClass<Sharpness>(m, "Sharpness"), field<&Sharpness::factor>("factor"));
    bind_fields(OpClass<Hue>(m, "Hue"), field<&Hue::factor>("factor"));
    bind_fields(OpClass<Posterize>(m, "Posterize"), field<&Posterize::bits>("bits"));
    bind_fields(OpClass<Solarize>(m, "Solarize"), field<&Solarize::threshold>("threshold"));
    bind_fields(OpClass<PointTable>(m, "PointTable"), field<&PointTable::table>("table"));
    bind_fields(OpClass<Autocontrast>(m, "Autocontrast"));
    bind_fields(OpClass<Equalize>(m, "Equalize"));
    bind_fields(OpClass<Invert>(m, "Invert"));
    bind_fields(OpClass<Luma>(m, "Luma"));
    bind_fields(OpClass<Grayscale>(m, "Grayscale"));
    bind_fields(OpClass<BoxBlur>(m, "BoxBlur"), field<&BoxBlur::radius>("radius"));
    bind_fields(OpClass<ThreeBoxBlurs>(m, "ThreeBoxBlurs"), field<&ThreeBoxBlurs::sigma>("sigma"));
    bind_fields(OpClass<Affine>(m, "Affine"), field<&Affine::matrix>("matrix"), field<&Affine::fill>("fill"),
                field<&Affine::interpolation>("interpolation"));
    bind_fields(OpClass<Rotate90>(m, "Rotate90"));
    bind_fields(OpClass<Rotate180>(m, "Rotate180"));
    bind_fields(OpClass<Rotate270>(m, "Rotate270"));
    bind_fields(OpClass<Transpose>(m, "Transpose"));
    bind_fields(OpClass<Transverse>(m, "Transverse"));
}

void bind_size_steps(py::module_& m) {
    bind_fields(StepClass<Resize>(m, "Resize"), field<&Resize::height>("height"), field<&Resize::width>("width"),
                field<&Resize::interpolation>("interpolation"));
    bind_fields(StepClass<BoxResize>(m, "BoxResize"), field<&BoxResize::box>("box"),
                field<&BoxResize::height>("height"), field<&BoxResize::width>("width"),
                field<&BoxResize::interpolation>("interpolation"));
    bind_fields(StepClass<ResizeShorterSide>(m, "ResizeShorterSide"), field<&ResizeShorterSide::size>("size"),
                field<&ResizeShorterSide::max_size>("max_size"),
                field<&ResizeShorterSide::interpolation>("interpolation"));
    bind_fields(StepClass<CenterCrop>(m, "CenterCrop"), field<&CenterCrop::height>("height"),
                field<&CenterCrop::width>("width"));
    bind_fields(StepClass<FixedCrop>(m, "FixedCrop"), field<&FixedCrop::left>("left"), field<&FixedCrop::top>("top"),
                field<&FixedCrop::height>("height"), field<&FixedCrop::width>("width"));
    bind_fields(StepClass<RandomResizedCrop>(m, "RandomResizedCrop"), field<&RandomResizedCrop::height>("height"),
                field<&RandomResizedCrop::width>("width"), field<&RandomResizedCrop::scale>("scale"),
                field<&RandomResizedCrop::ratio>("ratio"), field<&RandomResizedCrop::log_ratio>("log_ratio"),
                field<&RandomResizedCrop::interpolation>("interpolation"));
    bind_fields(StepClass<Pad>(m, "Pad"), field<&Pad::left>("left"), field<&Pad::top>("top"),
                field<&Pad::right>("right"), field<&Pad::bottom>("bottom"), field<&Pad::mode>("padding_mode"),
                field<&Pad::fill>("fill"));
    bind_fields(StepClass<RandomCrop>(m, "RandomCrop"), field<&RandomCrop::height>("height"),
                field<&RandomCrop::width>("width"), field<&RandomCrop::pad_if_needed>("pad_if_needed"),
                field<&RandomCrop::padding_mode>("padding_mode"), field<&RandomCrop::fill>("fill"),
                field<&RandomCrop::family>("family"));
}

void bind_random_steps(py::module_& m) {
    bind_fields(StepClass<RandomHorizontalFlip>(m, "RandomHorizontalFlip"),
                field<&RandomHorizontalFlip::probability>("probability"));
    bind_fields(StepClass<RandomVerticalFlip>(m, "RandomVerticalFlip"),
                field<&RandomVerticalFlip::probability>("probability"));
    bind_fields(StepClass<RandomApply>(m, "RandomApply"), field<&RandomApply::probability>("probability"),
                field<&RandomApply::family>("family"), field<&RandomApply::steps>("steps"));
    bind_fields(StepClass<ApplyOp>(m, "ApplyOp"), field<&ApplyOp::op>("op"),
                field<&ApplyOp::probability>("probability"));
    bind_fields(StepClass<ColorJitter>(m, "ColorJitter"), field<&ColorJitter::brightness>("brightness"),
                field<&ColorJitter::contrast>("contrast"), field<&ColorJitter::saturation>("saturation"),
                field<&ColorJitter::hue>("hue"));
    bind_fields(StepClass<RandomRotation>(m, "RandomRotation"), field<&RandomRotation::degrees>("degrees"),
                field<&RandomRotation::center>("center"), field<&RandomRotation::fill>("fill"),
                field<&RandomRotation::interpolation>("interpolation"));
    bind_fields(StepClass<RandomErasing>(m, "RandomErasing"), field<&RandomErasing::probability>("probability"),
                field<&RandomErasing::scale>("scale"), field<&RandomErasing::ratio>("ratio"),
                field<&RandomErasing::log_ratio>("log_ratio"), field<&RandomErasing::value>("value"));
}

void bind_policies(py::module_& m) {
    Class<PolicyChoice, std::shared_ptr<PolicyChoice>> choice(m, "PolicyChoice");
    compare_by_fields(choice);
    bind_fields(choice, field<&PolicyChoice::ops>("ops"), field<&PolicyChoice::is_signed>("is_signed"),
                field<&PolicyChoice::num_bins>("num_bins"), field<&PolicyChoice::probability>("probability"));
    bind_fields(StepClass<RandAugment>(m, "RandAugment"), field<&RandAugment::num_ops>("num_ops"),
                field<&RandAugment::choices>("choices"), field<&RandAugment::family>("family"));
    bind_fields(StepClass<TrivialAugmentWide>(m, "TrivialAugmentWide"), field<&TrivialAugmentWide::choices>("choices"),
                field<&TrivialAugmentWide::family>("family"));
    bind_fields(StepClass<AutoAugment>(m, "AutoAugment"), field<&AutoAugment::policies>("policies"),
                field<&AutoAugment::family>("family"));
    m.attr("MAX_POLICY_OPS") = RandAugment::kMaxOps;
}

// (height, width), as torchvision writes sizes.
using Sides = std::pair<std::int64_t, std::int64_t>;

std::optional<Sides> sides_after(const Step& step, const std::optional<Sides>& before) {
    std::optional<ImageSize> size;
    if (before) {
        const LongSize wanted(before->second, before->first);
        if (!wanted.is_possible()) throw py::value_error("size must be a possible size of an image");
        size = wanted.as_image_size();
    }
    const std::optional<LongSize> after = step.size_after(size);
    return after ? std::optional<Sides>({after->height, after->width}) : std::nullopt;
}

std::shared_ptr<Step> complete(const std::shared_ptr<Step>& step, const py::function& find) {
    std::shared_ptr<Step> completed = step->with_torch_exp(
        [&find](float from, float to) { return find(from, to).cast<std::shared_ptr<TorchExp>>(); });
    return completed == nullptr ? step : completed;
}

// In Python types.
struct ToPython {
    py::object operator()(const char* word) const { return py::str(word); }
    py::object operator()(std::int64_t number) const { return py::int_(number); }
    py::object operator()(double number) const { return py::float_(number); }
    py::object operator()(const RgbFill& fill) const { return py::make_tuple(fill[0], fill[1], fill[2]); }
    py::object operator()(ByteSpan bytes) const { return bytes_of(bytes); }
};

std::shared_ptr<TransformPlan> create_plan(Steps steps, int element_size, bool channels_last,
                                           const std::optional<py::bytes>& table, ResizeOrder resize_order,
                                           bool allow_variable_size, bool bgr,
                                           const std::optional<std::pair<std::int32_t, std::int32_t>>& source_size) {
    OutputLayout layout;
    layout.element_size_bytes = element_size;
    layout.channels_last = channels_last;
    layout.is_bgr = bgr;
    if (table) {
        const auto bytes = table->cast<std::string>();
        if (bytes.empty()) throw py::value_error("table must be None or not empty");
        layout.table.assign(bytes.begin(), bytes.end());
    }
    PlanOptions options = {resize_order, allow_variable_size, std::nullopt};
    if (source_size) options.source_size = ImageSize{source_size->second, source_size->first};
    std::string problem;
    auto plan = TransformPlan::create(std::move(steps), std::move(layout), options, &problem);
    if (plan == nullptr) throw py::value_error(problem);
    return plan;
}

py::list resolve(const TransformPlan& plan, DrawSource& draws, std::int32_t width, std::int32_t height) {
    ResolvedTransform resolved;
    const Status status = plan.resolve(&draws, {width, height}, &resolved);
    if (status.code == StatusCode::kOutOfMemory) throw std::bad_alloc();
    if (!status.is_ok()) throw py::value_error(std::string(status_text(status.code)) + ": " + status.detail);
    return list_reports(resolved.operations);
}

// None if samples differ in size.
std::optional<std::size_t> sample_bytes(const TransformPlan& plan) {
    return plan.has_fixed_size() ? std::optional<std::size_t>(plan.sample_bytes()) : std::nullopt;
}

}  // namespace

py::list list_reports(const OperationList& operations) {
    py::list reports;
    for (std::size_t i = 0; i < operations.size(); ++i) {
        py::list values;
        for (const auto& value : operations[i].report()) values.append(std::visit(ToPython(), value));
        reports.append(py::tuple(values));
    }
    return reports;
}

void bind_steps(py::module_& m) {
    Class<PixelOp, std::shared_ptr<PixelOp>> op(m, "PixelOp");
    compare_by_fields(op);
    Class<Step, std::shared_ptr<Step>> step(m, "Step");
    compare_by_fields(step);
    step.def("size_after", &sides_after, py::arg("size").none(true))
        .def("with_torch_exp", &complete, py::arg("find"))
        .def_property_readonly("is_random", &Step::is_random)
        .def_property_readonly("max_operations", &Step::max_operations);
    bind_pixel_ops(m);
    bind_size_steps(m);
    bind_random_steps(m);
    bind_policies(m);
    bind_fields(StepClass<GaussianBlur>(m, "GaussianBlur"), field<&GaussianBlur::sigma>("sigma"),
                field<&GaussianBlur::columns>("columns"), field<&GaussianBlur::rows>("rows"),
                field<&GaussianBlur::family>("family"), field<&GaussianBlur::sum_lanes>("sum_lanes"),
                field<&GaussianBlur::torch_gaussian>("torch_gaussian"));
    m.attr("MAX_BOX_RADIUS") = kMaxBoxRadius;
    m.attr("MAX_IMAGE_SIDE") = kMaxImageSide;
    m.attr("MAX_OPERATIONS") = kMaxOperations;

    Class<TransformPlan, std::shared_ptr<TransformPlan>>(m, "TransformPlan")
        .def(py::init(&create_plan), py::arg("steps"), py::kw_only(), py::arg("element_size") = 1,
             py::arg("channels_last") = true, py::arg("table") = py::none(), py::arg("resize_order"),
             py::arg("allow_variable_size") = false, py::arg("bgr") = false, py::arg("source_size") = py::none())
        .def_property_readonly("sample_bytes", &sample_bytes)
        .def_property_readonly("is_random", &TransformPlan::is_random)
        .def("resolve", &resolve, py::arg("draws"), py::arg("width"), py::arg("height"));
}

}  // namespace fastload
