// Builds small JPEG streams for the decoder's tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/span.h"

namespace fastload::testing {

using Bytes = std::vector<std::uint8_t>;

inline ByteSpan span_of(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

// Not insert(): GCC 12 warns falsely about its inlined copy.
inline void append(const Bytes& bytes, Bytes* all) {
    for (const std::uint8_t byte : bytes) all->push_back(byte);
}

inline Bytes joined(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) append(part, &all);
    return all;
}

inline Bytes segment(std::uint8_t code, const Bytes& payload) {
    const std::size_t length = payload.size() + 2;
    Bytes bytes = {0xFF, code, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length & 255)};
    append(payload, &bytes);
    return bytes;
}

inline Bytes text(const char* characters, std::size_t count) {
    return {reinterpret_cast<const std::uint8_t*>(characters),
            reinterpret_cast<const std::uint8_t*>(characters) + count};
}

// A table of 64 equal 8-bit values.
inline Bytes dqt(std::uint8_t slot, std::uint8_t value) {
    Bytes payload(65, value);
    payload[0] = slot;
    return segment(0xDB, payload);
}

// `class_and_slot` and a table with one code, "0", for `symbol`.
inline Bytes dht(std::uint8_t class_and_slot, std::uint8_t symbol) {
    Bytes payload(18, 0);
    payload[0] = class_and_slot;
    payload[1] = 1;
    payload[17] = symbol;
    return segment(0xC4, payload);
}

struct FrameFactors {
    std::uint8_t id;
    std::uint8_t factors;
    std::uint8_t table;
};

inline Bytes sof(std::uint8_t code, int width, int height, const std::vector<FrameFactors>& components) {
    Bytes payload = {8,
                     static_cast<std::uint8_t>(height >> 8),
                     static_cast<std::uint8_t>(height & 255),
                     static_cast<std::uint8_t>(width >> 8),
                     static_cast<std::uint8_t>(width & 255),
                     static_cast<std::uint8_t>(components.size())};
    for (const FrameFactors& c : components) append({c.id, c.factors, c.table}, &payload);
    return segment(code, payload);
}

inline Bytes sos(const std::vector<std::uint8_t>& ids, std::uint8_t tables = 0x00) {
    Bytes payload = {static_cast<std::uint8_t>(ids.size())};
    for (const std::uint8_t id : ids) append({id, tables}, &payload);
    append({0, 63, 0}, &payload);
    return segment(0xDA, payload);
}

// A scan of a progressive file: `shifts` is Ah and Al in one byte.
inline Bytes sos_band(const std::vector<std::uint8_t>& ids, int start, int end, int shifts) {
    Bytes bytes = sos(ids);
    bytes[bytes.size() - 3] = static_cast<std::uint8_t>(start);
    bytes[bytes.size() - 2] = static_cast<std::uint8_t>(end);
    bytes[bytes.size() - 1] = static_cast<std::uint8_t>(shifts);
    return bytes;
}

inline const Bytes kSoi = {0xFF, 0xD8};
inline const Bytes kEoi = {0xFF, 0xD9};

// Grey, 16 x 16: four blocks, each the code "0" for a DC difference of size 0 and the code "0" for EOB, so mid-grey.
// The scan's data are the single byte 00.
inline Bytes small_gray_file() {
    return joined(
        {kSoi, dqt(0, 1), sof(0xC0, 16, 16, {{1, 0x11, 0}}), dht(0x00, 0), dht(0x10, 0), sos({1}), {0x00}, kEoi});
}

// Grey, 16 x 16, progressive: all coefficients in two steps, mid-grey. DC scans have a bit for each of the four blocks,
// AC scans a code "0" for a run of 4 + 0 empty blocks, whose two low bits follow.
inline Bytes small_progressive_file() {
    const Bytes four_bits = {0x0F};
    const Bytes run_of_four = {0x1F};
    return joined({kSoi, dqt(0, 1), sof(0xC2, 16, 16, {{1, 0x11, 0}}), dht(0x00, 0), dht(0x10, 0x20),
                   sos_band({1}, 0, 0, 0x01), four_bits, sos_band({1}, 1, 63, 0x01), run_of_four,
                   sos_band({1}, 0, 0, 0x10), four_bits, sos_band({1}, 1, 63, 0x10), run_of_four, kEoi});
}

}  // namespace fastload::testing
