// Memory straight from the system, which goes back to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace fastload {

// A private anonymous mapping of zeros, in huge pages where the system gives them. Movable, owns.
class Mapping {
  public:
    Mapping() noexcept = default;
    Mapping(Mapping&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    Mapping(const Mapping&) = delete;  // two owners would unmap twice
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    // At least `size` bytes; data() is null where the system has no memory, or the size overflows.
    static Mapping create(std::size_t size) noexcept;

    std::uint8_t* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

  private:
    std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace fastload
