// Values made from the bytes of a fuzzer's input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/span.h"

namespace fastload::fuzzing {

inline void require(bool condition) {
    if (!condition) __builtin_trap();
}

// Reads values from bytes; after their end, zeros.
class Input {
  public:
    explicit Input(ByteSpan bytes) noexcept : rest_(bytes) {}

    // Any bits.
    template <typename Value>
    Value raw() noexcept {
        Value value{};
        const std::size_t count = std::min(sizeof(Value), rest_.size());
        if (count != 0) std::memcpy(&value, rest_.data(), count);
        rest_ = ByteSpan(rest_.data() + count, rest_.size() - count);
        return value;
    }

    // One of [0, count), 0 < count <= 256.
    int choose(int count) noexcept { return raw<std::uint8_t>() % count; }

    // The bytes that have not been used yet.
    ByteSpan rest() const noexcept { return rest_; }

    // At most `count` values of any bits.
    template <typename Value>
    std::vector<Value> raw_array(std::size_t count) {
        std::vector<Value> values(std::min(count, rest_.size() / sizeof(Value)));
        for (Value& value : values) value = raw<Value>();
        return values;
    }

  private:
    ByteSpan rest_;
};

// Writes bytes at positions in a record that is not empty, as many as there are left.
inline void change_bytes(Input* input, std::vector<std::uint8_t>* record) {
    while (!input->rest().is_empty()) {
        const std::size_t at = input->raw<std::uint16_t>() % record->size();
        (*record)[at] = input->raw<std::uint8_t>();
    }
}

}  // namespace fastload::fuzzing
