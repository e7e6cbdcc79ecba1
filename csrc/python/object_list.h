// Lists and sets of objects in memory outside of the heap, which goes back to the system at once: processes that are
// forked afterwards inherit none of it.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/mapping.h"

namespace fastload {

// A stack of borrowed references.
class ObjectList {
  public:
    ObjectList() noexcept = default;
    // Holds `most` objects at most.
    explicit ObjectList(std::size_t most) noexcept : most_(most) {}

    // Returns false if the list is full or there is no memory; from then on is_short() tells the second apart.
    bool push(PyObject* object) noexcept {
        if (size_ == most_ || (size_ == room() && !grow())) return false;
        items()[size_++] = object;
        return true;
    }
    PyObject* pop() noexcept { return items()[--size_]; }
    void clear() noexcept { size_ = 0; }
    bool is_short() const noexcept { return is_short_; }

    std::size_t size() const noexcept { return size_; }
    PyObject* operator[](std::size_t position) const noexcept { return items()[position]; }

    // The visitproc for a tp_traverse whose argument is an ObjectList. Ends the traversal once push() fails.
    static int push_visited(PyObject* object, void* list) noexcept {
        return static_cast<ObjectList*>(list)->push(object) ? 0 : -1;
    }

  private:
    PyObject** items() const noexcept { return reinterpret_cast<PyObject**>(memory_.data()); }
    std::size_t room() const noexcept { return memory_.size() / sizeof(PyObject*); }
    bool grow() noexcept {
        Mapping larger = Mapping::create(memory_.size() == 0 ? kFirstBytes : 2 * memory_.size());
        is_short_ = is_short_ || larger.data() == nullptr;
        if (larger.data() == nullptr) return false;
        if (size_ != 0) std::memcpy(larger.data(), memory_.data(), size_ * sizeof(PyObject*));
        memory_ = std::move(larger);
        return true;
    }

    static constexpr std::size_t kFirstBytes = std::size_t{1} << 16;

    Mapping memory_;
    std::size_t size_ = 0;
    std::size_t most_ = SIZE_MAX;
    bool is_short_ = false;
};

// A set of borrowed references with room for kMost of them.
class ObjectSet {
  public:
    static constexpr std::size_t kMost = 100'000;

    // Returns whether the object was not in the set and is now.
    bool insert(PyObject* object) noexcept {
        if (slots() == nullptr || size_ == kMost) return false;
        PyObject** const slot = find(object);
        if (*slot != nullptr) return false;
        *slot = object;
        ++size_;
        return true;
    }
    bool contains(PyObject* object) const noexcept { return slots() != nullptr && *find(object) != nullptr; }
    bool is_full() const noexcept { return size_ == kMost; }
    bool is_short() const noexcept { return slots() == nullptr; }  // there is no memory

  private:
    static constexpr std::size_t kSlots = std::size_t{1} << 18;  // over twice kMost: probes are few

    PyObject** slots() const noexcept { return reinterpret_cast<PyObject**>(memory_.data()); }
    // Returns the object's slot, or the empty one that it would get.
    PyObject** find(PyObject* object) const noexcept {
        const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(object) >> 4) * 0x9E3779B97F4A7C15u;
        std::size_t at = static_cast<std::size_t>(mixed >> 40) % kSlots;
        while (slots()[at] != nullptr && slots()[at] != object) at = (at + 1) % kSlots;
        return slots() + at;
    }

    Mapping memory_ = Mapping::create(kSlots * sizeof(PyObject*));
    std::size_t size_ = 0;
};

}  // namespace fastload
