// A pointer and a length, without ownership (C++17 has no std::span).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fastload {

template <typename T>
class Span {
  public:
    constexpr Span() noexcept = default;
    constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}

    constexpr T* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool is_empty() const noexcept { return size_ == 0; }
    constexpr T* begin() const noexcept { return data_; }
    constexpr T* end() const noexcept { return data_ + size_; }
    // Unchecked, like a pointer: the caller proves `index < size()`.
    constexpr T& operator[](std::size_t index) const noexcept { return data_[index]; }

    // The part [offset, offset + count). The caller proves that it lies inside.
    constexpr Span subspan(std::size_t offset, std::size_t count) const noexcept { return {data_ + offset, count}; }

  private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

using ByteSpan = Span<const std::uint8_t>;

// Bytes that stay as long as one of the pointers to their span.
using SharedBytes = std::shared_ptr<const Span<std::uint8_t>>;

}  // namespace fastload
