#include "python/immortal_objects.h"

#include <cstdint>

namespace fastload {
namespace {

// Note [immortal counts]
// In both forms the plain count is kept aside, so that it can be given back. Extensions built for the stable ABI of
// Python before 3.12 count in all 64 bits, also immortal objects. They do not come near 0 that way, and after as many
// decrements as increments the object is immortal as before.
//   3.12, 3.13: immortal if bit 31 is set; Python's own code leaves a low half of ones alone. The plain count moves to
//               the high half: 5 becomes 0x5'ffff'ffff.
//   3.14:       from 3 << 30 on; the count has 32 bits, and its low 30 stay: 5 becomes 0xc000'0005.
#ifdef Py_GIL_DISABLED
void begin_immortality(PyObject* /*object*/) noexcept {}
void end_immortality(PyObject* /*object*/) noexcept {}
#elif PY_VERSION_HEX >= 0x030E0000
constexpr std::uint32_t kImmortalBits = std::uint32_t{3} << 30;

void begin_immortality(PyObject* object) noexcept { object->ob_refcnt |= kImmortalBits; }
void end_immortality(PyObject* object) noexcept { object->ob_refcnt &= ~kImmortalBits; }
#else
void begin_immortality(PyObject* object) noexcept {
    object->ob_refcnt = static_cast<Py_ssize_t>(static_cast<std::uint64_t>(Py_REFCNT(object)) << 32 | UINT32_MAX);
}
void end_immortality(PyObject* object) noexcept { object->ob_refcnt >>= 32; }
#endif

// Elements that are left are walked in vain, and may reach each other again and again. That work, in objects, has a
// limit for each container and one for all.
constexpr std::size_t kMaxVainWork = 1'000'000;
constexpr std::size_t kMaxVainWorkOfAll = 20'000'000;

struct Work {
    std::size_t immortal = 0;
    std::size_t in_vain = 0;

    bool is_worth_more(std::size_t limit) const noexcept { return in_vain <= limit + 4 * immortal; }
};

class Marker {
  public:
    Marker(const SharableTypes& types, const LargeContainers& containers) noexcept
        : types_(types), containers_(containers) {}

    void mark_elements(PyObject* container) noexcept {
        ObjectList elements;
        types_.list_parts(container, elements);
        is_short_ = is_short_ || elements.is_short();
        Work done;
        for (std::size_t i = 0; i < elements.size() && !is_short() && done.is_worth_more(kMaxVainWork); ++i) {
            mark(elements[i], done);
        }
        all_done_.immortal += done.immortal;
        all_done_.in_vain += done.in_vain;
    }
    bool is_at_end() const noexcept { return is_short() || !all_done_.is_worth_more(kMaxVainWorkOfAll); }
    bool is_short() const noexcept { return is_short_ || waiting_.is_short() || marked_.is_short(); }
    std::size_t num_immortal() const noexcept { return all_done_.immortal; }

  private:
    void mark(PyObject* element, Work& done) noexcept {
        waiting_.clear();
        marked_.clear();
        if (reach_all(element)) {
            for (std::size_t i = 0; i < marked_.size(); ++i) finish(marked_[i]);
            done.immortal += marked_.size();
        } else {
            for (std::size_t i = 0; i < marked_.size(); ++i) end_immortality(marked_[i]);
            done.in_vain += marked_.size() + 1;
        }
    }

    // Returns false at the first object that is neither sharable nor passed by.
    bool reach_all(PyObject* element) noexcept {
        waiting_.push(element);
        while (waiting_.size() != 0) {
            PyObject* const object = waiting_.pop();
            if (!has_plain_count(object) || containers_.has_passed(object)) continue;
            const SharableKind kind = types_.kind_of(object);
            if (kind == SharableKind::kPassedBy) continue;
            if (kind == SharableKind::kOther || !marked_.push(object)) return false;
            begin_immortality(object);
            if (kind == SharableKind::kContainer) types_.list_parts(object, waiting_);
            if (waiting_.is_short()) return false;
        }
        return true;
    }

    // Does in advance what else would write to an object that is read.
    static void finish(PyObject* object) noexcept {
        if (PyUnicode_CheckExact(object)) {
            PyObject_Hash(object);  // kept in the text; cannot fail
        } else if (PyObject_IS_GC(object) && PyObject_GC_IsTracked(object) != 0) {
            PyObject_GC_UnTrack(object);  // the collector keeps its own counts in its objects
        }
    }

    const SharableTypes& types_;
    const LargeContainers& containers_;
    ObjectList waiting_;
    ObjectList marked_;  // of the current element
    Work all_done_;
    bool is_short_ = false;
};

}  // namespace

std::optional<std::size_t> make_elements_immortal(const SharableTypes& types,
                                                  const LargeContainers& containers) noexcept {
    Marker marker(types, containers);
    for (std::size_t i = 0; i < containers.found().size() && !marker.is_at_end(); ++i) {
        marker.mark_elements(containers.found()[i]);
    }
    if (marker.is_short() || containers.is_short()) return std::nullopt;
    return marker.num_immortal();
}

}  // namespace fastload
