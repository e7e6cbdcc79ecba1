#include "kernels/resize.h"

#include "base/aligned_buffer.h"
#include "check.h"
#include "image/plan/normalization.h"
#include "image/resize/resize_plan.h"
#include "kernel_variants.h"
#include "readable_window.h"
#include "test_images.h"

namespace fastload {
namespace {

using namespace testing;

// The usual normalisation: its table, and the formula that gives the same bits.
struct Elements {
    std::vector<float> table = normalized_table({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F});
    Normalizations formula;

    Elements() {
        const auto found = find_normalizations(table.data());
        CHECK(found.has_value());
        if (found.has_value()) formula = *found;
    }

    ConvertJob job(ImageSize size) const {
        ConvertJob job;
        job.width = size.width;
        job.height = size.height;
        job.element_size_bytes = 4;
        job.table = table.data();
        job.normalizations = formula.channels;
        return job;
    }
};

// Floats whose first one is `offset` floats after the start of a cache line.
class Floats {
  public:
    Floats(const ConvertJob& job, std::size_t offset) : offset_(offset) {
        const std::size_t count = 3 * static_cast<std::size_t>(job.width) * static_cast<std::size_t>(job.height);
        CHECK(memory_.reserve((offset + count) * sizeof(float)).is_ok());
        std::memset(memory_.data(), 0x5A, (offset + count) * sizeof(float));
        count_ = count;
    }
    float* data() { return reinterpret_cast<float*>(memory_.data()) + offset_; }
    bool operator==(Floats& other) { return std::memcmp(data(), other.data(), count_ * sizeof(float)) == 0; }
    bool is_untouched() {
        for (std::size_t i = 0; i < count_ * sizeof(float); ++i) {
            if (reinterpret_cast<const std::uint8_t*>(data())[i] != 0x5A) return false;
        }
        return true;
    }

  private:
    AlignedBuffer memory_;
    std::size_t offset_;
    std::size_t count_ = 0;
};

bool resize_convert(const KernelTable& kernels, const StripImageView& source, const ResizeJob& job,
                    const ConvertJob& convert, float* destination) {
    std::size_t scratch_size = 0;
    CHECK(kernels.resize_scratch_bytes({source.width, source.height}, job, &scratch_size));
    AlignedBuffer scratch;  // exact, so that a sanitizer detects writes after it
    CHECK(scratch.reserve(scratch_size).is_ok());
    std::memset(scratch.data(), 0xA5, scratch_size);
    return kernels.resize_convert(source, job, scratch.data(), convert, destination);
}

void check_both_equal(const StripImageView& source, const ResizeJob& job, const ConvertJob& convert,
                      std::size_t offset) {
    const KernelTable& scalar = *runnable_kernel_tables()[runnable_kernel_tables().size() - 1];
    std::size_t scratch_size = 0;
    CHECK(scalar.resize_scratch_bytes({source.width, source.height}, job, &scratch_size));
    AlignedBuffer scratch;
    CHECK(scratch.reserve(scratch_size).is_ok());
    PlanarImage rows(job.width, job.height);
    scalar.resize(source, job, scratch.data(), rows.view());
    Floats expected(convert, offset);
    scalar.convert_rows(rows.view(), convert, expected.data());
    const bool are_whole_lines =
        convert.width % 16 == 0 && convert.left % 16 == 0 && job.width % 16 == 0 && offset == 0;
    for_each_kernel_table([&](const KernelTable& kernels) {
        Floats elements(convert, offset);
        const bool is_done = resize_convert(kernels, source, job, convert, elements.data());
        CHECK_EQUAL(is_done, are_whole_lines && std::string(kernels.name) != "scalar");
        CHECK(is_done ? elements == expected : elements.is_untouched());
    });
}

// Padding around a result.
struct Frame {
    std::int32_t left;
    std::int32_t top;
    std::int32_t right;
    std::int32_t bottom;
};

void check_resize(const StripImageView& source, ImageSize to, ResizeOrder order, const Frame& frame = {},
                  std::size_t offset = 0) {
    static const Elements elements;
    ResizePlan plan;
    CHECK(plan.prepare({source.width, source.height}, to, Interpolation::kBilinear, order).is_ok());
    ConvertJob convert = elements.job({frame.left + to.width + frame.right, frame.top + to.height + frame.bottom});
    convert.left = frame.left;
    convert.top = frame.top;
    for (const bool is_mirrored : {false, true}) {
        convert.is_mirrored = is_mirrored;
        check_both_equal(source, plan.job(), convert, offset);
    }
}

constexpr ResizeOrder kOrders[] = {ResizeOrder::kHorizontalFirst, ResizeOrder::kPillow13};

}  // namespace

TEST_CASE(resize_convert_equals_a_resize_and_a_last_write_around_block_sizes) {
    const StripImage image(32, 41, 1);
    for (const std::int32_t width : {16, 32, 48, 64, 80, 112}) {
        for (const std::int32_t height : {1, 7, 8, 9, 16, 17, 41, 50}) {
            if (width == 32 && height == 41) continue;  // stays as it is
            for (const ResizeOrder order : kOrders) {
                check_resize(image.view(), {width, height}, order);
                check_resize(image.view(), {width, height}, order, {16, 3, 32, 2});
            }
        }
    }
}

TEST_CASE(resize_convert_takes_windows_at_any_offset) {
    const StripImage image(61, 47, 5);
    for (std::int32_t offset = 0; offset < 10; ++offset) {
        const StripImageView window = image.view().crop({offset, 11 - offset, 48, 30 + offset / 2});
        const ReadableWindow only(window, {61, 47});
        for (const ResizeOrder order : kOrders) {
            check_resize(window, {16, 9}, order);
            check_resize(window, {80, 13}, order);
            check_resize(window, {48, 12}, order);
            check_resize(window, {16, window.height}, order);
        }
    }
}

TEST_CASE(resize_convert_refuses_rows_that_are_not_whole_cache_lines) {
    const StripImage image(32, 41, 1);
    for (const ResizeOrder order : kOrders) {
        check_resize(image.view(), {17, 20}, order);
        check_resize(image.view(), {15, 20}, order, {0, 0, 1, 0});
        check_resize(image.view(), {16, 20}, order, {4, 0, 12, 0});
        check_resize(image.view(), {16, 20}, order, {0, 0, 8, 0});
        check_resize(image.view(), {16, 20}, order, {}, 4);
    }
}

TEST_CASE(resize_convert_refuses_elements_it_is_not_made_for) {
    const Elements elements;
    const StripImage image(20, 20, 3);
    ResizePlan plan;
    CHECK(plan.prepare({20, 20}, {10, 10}, Interpolation::kBilinear, ResizeOrder::kPillow13).is_ok());
    ConvertJob channels_last = elements.job({10, 10});
    channels_last.is_channels_last = true;
    ConvertJob any_table = elements.job({10, 10});
    any_table.normalizations = nullptr;
    for_each_kernel_table([&](const KernelTable& kernels) {
        for (const ConvertJob& convert : {channels_last, any_table}) {
            Floats untouched(convert, 0);
            CHECK(!resize_convert(kernels, image.view(), plan.job(), convert, untouched.data()));
            CHECK(untouched.is_untouched());
        }
    });
}

}  // namespace fastload
