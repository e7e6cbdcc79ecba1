// Memory that comes straight from the system and goes back to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace fastload {

// Owns a mapping; movable.
class Mapping {
  public:
    Mapping() noexcept = default;
    // Takes over a mapping of any kind.
    Mapping(std::uint8_t* data, std::size_t size) noexcept : data_(data), size_(size) {}
    Mapping(Mapping&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Mapping();

    // Maps at least `size` private bytes, zeros, in huge pages if the system has them; data() is null if the system has
    // no memory or the size overflows.
    static Mapping create(std::size_t size) noexcept;

    std::uint8_t* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

  private:
    std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace fastload
