// A plan resolved for one sample: its operations.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "base/image_view.h"
#include "image/plan/operation.h"

namespace fastload {

// Operations that steps of the plan own, and others that are made for the sample and stored in here. Keeps its memory
// from sample to sample.
class OperationList {
  public:
    OperationList() = default;
    OperationList(const OperationList&) = delete;  // the list points into its own slots
    OperationList& operator=(const OperationList&) = delete;
    OperationList(OperationList&&) = default;
    OperationList& operator=(OperationList&&) = default;
    ~OperationList() = default;

    // Makes room for `count` operations in total. May throw std::bad_alloc.
    void reserve(std::size_t count) {
        if (count <= slots_.size()) return;
        clear();
        slots_ = std::vector<Slot>(count);
        listed_.reserve(count);
    }

    void clear() noexcept { listed_.clear(); }

    // Both add an operation. The caller proves that there is room.
    template <typename Made>
    Made& make(const Made& operation) noexcept {
        Made& made = slots_[listed_.size()].make(operation);
        listed_.push_back(&made);
        return made;
    }
    void add(const Operation& operation) noexcept { listed_.push_back(&operation); }

    bool is_empty() const noexcept { return listed_.empty(); }
    std::size_t size() const noexcept { return listed_.size(); }
    const Operation& operator[](std::size_t index) const noexcept { return *listed_[index]; }

  private:
    // Memory for one operation, which is destroyed when the next one is made in it.
    class Slot {
      public:
        Slot() = default;
        Slot(const Slot&) = delete;  // others point to its contents
        Slot& operator=(const Slot&) = delete;
        ~Slot() { destroy(); }

        template <typename Made>
        Made& make(const Made& operation) noexcept {
            static_assert(sizeof(Made) <= sizeof(bytes_) && alignof(Made) <= alignof(std::max_align_t));
            destroy();
            Made* made = new (bytes_) Made(operation);
            held_ = made;
            return *made;
        }

      private:
        void destroy() noexcept {
            if (held_ != nullptr) std::exchange(held_, nullptr)->~Operation();
        }

        alignas(std::max_align_t) unsigned char bytes_[64];
        Operation* held_ = nullptr;
    };

    std::vector<Slot> slots_;
    std::vector<const Operation*> listed_;
};

constexpr std::size_t kMaxOperations = 32;

// Operations that change nothing are left out. Must not outlive the plan that made it.
struct ResolvedTransform {
    OperationList operations;
    ImageSize source_size;
    ImageSize output_size;
    // The pixels of the source that the result depends on, given the crops; the decoder must deliver them. Never empty.
    Region source_region;
    // True if torchvision would still have Image.info, the file's metadata besides the pixels. Some of its operations
    // make another image, even one with the same pixels.
    bool keeps_info = true;
};

}  // namespace fastload
