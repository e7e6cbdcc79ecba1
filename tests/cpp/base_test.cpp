
#include "base/aligned_buffer.h"
#include "base/base64.h"
#include "base/checked_math.h"
#include "base/image_view.h"
#include "base/status.h"
#include "check.h"

namespace fastload {

TEST_CASE(every_status_code_has_a_text_and_a_stage) {
    for (int code = 0; code <= static_cast<int>(StatusCode::kCancelled); ++code) {
        CHECK(*status_text(static_cast<StatusCode>(code)) != '\0');
        CHECK(*stage_name(stage_of(static_cast<StatusCode>(code))) != '\0');
    }
}

TEST_CASE(base64_follows_the_rfc) {
    const std::string word = "foobar";
    const char* const expected[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (std::size_t size = 0; size <= word.size(); ++size) {
        std::string text(base64_size(size), '?');
        encode_base64({reinterpret_cast<const std::uint8_t*>(word.data()), size}, text.data());
        CHECK(text == expected[size]);
    }
    const std::uint8_t high[] = {0xfb, 0xff, 0xbf};
    std::string text(base64_size(3), '?');
    encode_base64({high, 3}, text.data());
    CHECK(text == "+/+/");
}

TEST_CASE(only_decoder_verdicts_go_to_the_fallback) {
    CHECK(is_for_fallback(StatusCode::kIrregular));
    CHECK(is_for_fallback(StatusCode::kUnsupported));
    CHECK(is_for_fallback(StatusCode::kLimitExceeded));
    CHECK(!is_for_fallback(StatusCode::kOpenFailed));
    CHECK(!is_for_fallback(StatusCode::kOutOfMemory));
    CHECK(!is_for_fallback(StatusCode::kOk));
}

TEST_CASE(aligned_buffer_grows_and_keeps_what_it_has) {
    AlignedBuffer buffer;
    CHECK(buffer.reserve(100).is_ok());
    CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(buffer.data()) % AlignedBuffer::kAlignment, 0U);
    const std::size_t capacity = buffer.capacity();
    const std::uint8_t* data = buffer.data();
    CHECK(buffer.reserve(50).is_ok());
    CHECK_EQUAL(buffer.capacity(), capacity);
    CHECK(buffer.data() == data);
    CHECK(buffer.reserve(capacity + 1).is_ok());
    CHECK(buffer.capacity() > capacity);
}

TEST_CASE(aligned_buffer_releases_large_memory_after_eight_samples_that_needed_a_small_part) {
    constexpr std::size_t kLarge = std::size_t{16} << 20;
    AlignedBuffer buffer;
    CHECK(buffer.reserve(kLarge).is_ok());
    CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(buffer.data()) % AlignedBuffer::kAlignment, 0U);
    buffer.data()[kLarge - 1] = 1;
    for (const std::size_t size : {kLarge, std::size_t{1}, kLarge / 2}) {
        for (int sample = 0; sample < 7; ++sample) {
            CHECK(buffer.reserve(size).is_ok());
            buffer.release(ScratchRule::kUnneeded);
            CHECK(buffer.capacity() >= kLarge);
        }
    }
    for (int sample = 0; sample < 8; ++sample) buffer.release(ScratchRule::kUnneeded);
    CHECK_EQUAL(buffer.capacity(), 0U);
    CHECK(buffer.reserve(100).is_ok());
    buffer.data()[99] = 1;
}

TEST_CASE(aligned_buffer_releases_large_memory_at_once_and_keeps_small_memory) {
    AlignedBuffer buffer;
    CHECK(buffer.reserve(AlignedBuffer::kMaxKeptBytes / 2).is_ok());
    const std::size_t capacity = buffer.capacity();
    for (int sample = 0; sample < 20; ++sample) buffer.release(ScratchRule::kUnneeded);
    buffer.release(ScratchRule::kLarge);
    CHECK_EQUAL(buffer.capacity(), capacity);
    CHECK(buffer.reserve(AlignedBuffer::kMaxKeptBytes).is_ok());
    buffer.release(ScratchRule::kLarge);
    CHECK_EQUAL(buffer.capacity(), 0U);
}

TEST_CASE(aligned_buffer_reports_overflow_and_keeps_the_old_bytes) {
    AlignedBuffer buffer;
    CHECK(buffer.reserve(10).is_ok());
    const std::size_t capacity = buffer.capacity();
    CHECK(buffer.reserve(SIZE_MAX).code == StatusCode::kOutOfMemory);
    CHECK_EQUAL(buffer.capacity(), capacity);
}

TEST_CASE(checked_math_refuses_what_does_not_fit) {
    std::size_t result = 0;
    CHECK(checked_multiply(1U << 20, 1U << 20, &result));
    CHECK_EQUAL(result, std::size_t{1} << 40);
    CHECK(!checked_multiply(SIZE_MAX, 2, &result));
    CHECK(!checked_add(SIZE_MAX, 1, &result));
    CHECK(checked_round_up(65, 64, &result));
    CHECK_EQUAL(result, 128U);
    CHECK(!checked_round_up(SIZE_MAX - 3, 64, &result));
}

TEST_CASE(region_must_lie_inside_the_image) {
    CHECK((Region{0, 0, 10, 20}.lies_inside(10, 20)));
    CHECK((!Region{1, 0, 10, 20}.lies_inside(10, 20)));
    CHECK((!Region{-1, 0, 5, 5}.lies_inside(10, 20)));
    CHECK((!Region{0, 0, 0, 5}.lies_inside(10, 20)));
    CHECK((!Region{INT32_MAX, 0, 5, 5}.lies_inside(10, 20)));
}

}  // namespace fastload
