// The closed list of results that native code can return, and the data each one carries.
#pragma once

#include <cstdint>

namespace fastload {

// A new code needs a row in status.cpp's text table and one in docs/design.md.
enum class StatusCode : std::uint8_t {
    kOk,
    // Reader. `system_errno` is set if the system gave one.
    kOpenFailed,
    kNotRegularFile,
    kFileTooLarge,
    kReadFailed,
    kFileShrank,
    // Decoder. None of these is an error of the user's file: the reference decoder decides about such a sample.
    kUnsupported,    // another format, or a kind of JPEG the native decoder does not know
    kIrregular,      // a condition that a strict reading of the stream does not allow
    kLimitExceeded,  // more pixels or scans than the native path takes
    // Transform.
    kInvalidGeometry,
    // Engine.
    kOutOfMemory,
    kWaitsForDraws,  // no error: the sample is tried again when the samples before it have drawn their random numbers
    kCancelled,
};

// The stage of the flow that a status comes from, as errors show it to users.
enum class Stage : std::uint8_t { kNone, kOpen, kRead, kHeader, kDecode, kLimit, kTransform, kEngine };

// A result without ownership: cheap to copy, safe to store across threads.
struct [[nodiscard]] Status {
    StatusCode code = StatusCode::kOk;
    int system_errno = 0;
    std::uint64_t byte_offset = 0;  // position in the file if there is one, else 0
    const char* detail = "";        // static storage only

    constexpr bool is_ok() const noexcept { return code == StatusCode::kOk; }

    static constexpr Status ok() noexcept { return {}; }
    static constexpr Status unsupported(const char* detail, std::uint64_t byte_offset = 0) noexcept {
        return {StatusCode::kUnsupported, 0, byte_offset, detail};
    }
    static constexpr Status irregular(const char* detail, std::uint64_t byte_offset) noexcept {
        return {StatusCode::kIrregular, 0, byte_offset, detail};
    }
};

// True if the sample goes to the reference decoder instead of being lost.
constexpr bool is_for_fallback(StatusCode code) noexcept {
    return code == StatusCode::kUnsupported || code == StatusCode::kIrregular || code == StatusCode::kLimitExceeded;
}

// One short sentence, lower case, without a full stop. Static storage.
const char* status_text(StatusCode code) noexcept;

Stage stage_of(StatusCode code) noexcept;

// The word in SampleError.stage: "open", "read", "header", ...
const char* stage_name(Stage stage) noexcept;

}  // namespace fastload
