#include "python/large_containers.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace fastload {
namespace {

// Waiting objects of the search: one C type may refer to millions.
constexpr std::size_t kMaxWaiting = 10 * ObjectSet::kMost;
// After this many objects an estimate takes the other containers to be like those before. ObjectSet holds more.
constexpr int kMaxLooks = 50'000;

// Reading an object writes its count: of larger objects one page is copied.
constexpr double kPageBytes = 4096;
constexpr double kCollectorBytes = 16;
constexpr double kAttributesBytes = 64;  // of an instance without a dict of its own

double bytes_of(PyObject* object) noexcept {
    PyTypeObject* const type = Py_TYPE(object);
    double bytes = static_cast<double>(type->tp_basicsize);
    if (PyUnicode_CheckExact(object)) {
        bytes += static_cast<double>(PyUnicode_GET_LENGTH(object)) * PyUnicode_KIND(object) - 15;  // one field is less
    } else if (PyLong_Check(object)) {
        bytes += 4;  // its size is not in ob_size from Python 3.12 on
    } else if (type->tp_itemsize != 0) {
        bytes += static_cast<double>(std::abs(Py_SIZE(object))) * static_cast<double>(type->tp_itemsize);
    }
    if (PyType_IS_GC(type)) bytes += kCollectorBytes;
#ifdef Py_TPFLAGS_MANAGED_DICT
    if (PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT)) bytes += kAttributesBytes;
#endif
    return std::min(bytes, kPageBytes);
}

class Estimator {
  public:
    Estimator(const SharableTypes& types, const LargeContainers& containers) noexcept
        : types_(types), containers_(containers) {}

    void add(PyObject* container) {
        if (num_looks_ >= kMaxLooks) {
            add_like_those_before(container);
            return;
        }
        elements_.clear();
        types_.list_parts(container, elements_);
        const double weight = weight_of_part(container, elements_);
        for (std::size_t i = 0; i < elements_.size(); ++i) {
            DataSetEstimate added;
            const bool is_sharable = walk(elements_[i], weight, added);
            total_.num_bytes += added.num_bytes;
            if (is_sharable) total_.num_sharable += added.num_sharable;
        }
        num_parts_ += static_cast<double>(num_parts_of(container));
    }
    const DataSetEstimate& total() const noexcept { return total_; }

  private:
    struct Weighted {
        PyObject* object;
        double weight;
    };

    Py_ssize_t num_parts_of(PyObject* container) const noexcept {
        return types_.length_of(container) * (PyDict_Check(container) ? 2 : 1);
    }

    // Returns for how many objects each of the listed parts stands.
    double weight_of_part(PyObject* container, const ObjectList& listed) const noexcept {
        const auto parts = static_cast<double>(num_parts_of(container));
        return std::max(1.0, parts / static_cast<double>(std::max<std::size_t>(1, listed.size())));
    }

    void add_like_those_before(PyObject* container) noexcept {
        const auto parts = static_cast<double>(num_parts_of(container));
        const double growth = 1 + parts / std::max(1.0, num_parts_);
        total_.num_sharable *= growth;
        total_.num_bytes *= growth;
        num_parts_ += parts;
    }

    // Adds what lies in an element that stands for `weight` elements; returns whether all of it is sharable.
    bool walk(PyObject* element, double weight, DataSetEstimate& added) {
        bool is_sharable = true;
        waiting_.push_back({element, weight});
        while (!waiting_.empty()) {
            const Weighted next = waiting_.back();
            waiting_.pop_back();
            if (!has_plain_count(next.object) || containers_.has_passed(next.object)) continue;
            const SharableKind kind = types_.kind_of(next.object);
            if (kind == SharableKind::kPassedBy || !seen_.insert(next.object)) continue;
            ++num_looks_;
            is_sharable = is_sharable && kind != SharableKind::kOther;
            added.num_sharable += next.weight;
            added.num_bytes += next.weight * bytes_of(next.object);
            if (kind == SharableKind::kContainer) wait_for_parts(next);
        }
        return is_sharable;
    }

    void wait_for_parts(const Weighted& container) {
        parts_.clear();
        types_.list_parts(container.object, parts_);
        const double weight = container.weight * weight_of_part(container.object, parts_);
        for (std::size_t i = 0; i < parts_.size(); ++i) waiting_.push_back({parts_[i], weight});
    }

    const SharableTypes& types_;
    const LargeContainers& containers_;
    ObjectSet seen_;
    ObjectList elements_{kLargeLength};
    ObjectList parts_{kLargeLength};
    std::vector<Weighted> waiting_;
    int num_looks_ = 0;
    double num_parts_ = 0;
    DataSetEstimate total_;
};

}  // namespace

LargeContainers::LargeContainers(const SharableTypes& types, PyObject* roots) noexcept {
    ObjectList way(kMaxWaiting);
    types.list_parts(roots, way);
    for (std::size_t next = 0; next < way.size() && !passed_.is_full(); ++next) {
        PyObject* const object = way[next];
        if (!passed_.insert(object)) continue;
        if (types.length_of(object) >= kLargeLength) {
            found_.push(object);
        } else {
            types.list_way_on(object, way);
        }
    }
}

DataSetEstimate estimate(const SharableTypes& types, const LargeContainers& containers) {
    Estimator estimator(types, containers);
    for (std::size_t i = 0; i < containers.found().size(); ++i) estimator.add(containers.found()[i]);
    return estimator.total();
}

}  // namespace fastload
