
#include "check.h"
#include "image/pixels/nearest_axis.h"
#include "image/plan/working_image.h"
#include "image/steps/affine.h"
#include "image/steps/hue.h"
#include "image/steps/point_ops.h"
#include "image/steps/saturation.h"
#include "image/steps/sharpness.h"
#include "image/steps/transpositions.h"
#include "kernel_variants.h"
#include "test_images.h"

namespace fastload {
namespace {

using testing::TightImage;

bool is_in_place(const PixelOp& op) { return dynamic_cast<const InPlaceOp*>(&op) != nullptr; }

// The table that every processor has comes last.
const KernelTable& scalar_kernels() {
    const Span<const KernelTable* const> tables = runnable_kernel_tables();
    return *tables[tables.size() - 1];
}

// In place, or to `result`.
void run(const PixelOp& op, const PlanarImageView& image, const PlanarImageView& result,
         const KernelTable& kernels = scalar_kernels()) {
    Workspace workspace(kernels);
    if (is_in_place(op)) {
        dynamic_cast<const InPlaceOp&>(op).change(image);
    } else {
        CHECK(dynamic_cast<const RemakingOp&>(op).remake(image, result, &workspace).is_ok());
    }
}

TightImage run(const PixelOp& op, TightImage image, const KernelTable& kernels = scalar_kernels()) {
    const ImageSize size = op.size_after(image.size());
    TightImage result(size.width, size.height);
    run(op, image.view(), result.view(), kernels);
    return is_in_place(op) ? image : result;
}

constexpr Interpolation kAffineInterpolations[] = {Interpolation::kNearest, Interpolation::kBilinear,
                                                   Interpolation::kBicubic};

Affine affine() {
    Affine op;
    op.matrix = {0.9, -0.3, 4.0, 0.4, 1.1, -3.0};
    op.fill = {1, 2, 3};
    return op;
}

std::vector<std::unique_ptr<PixelOp>> all_ops() {
    std::vector<std::unique_ptr<PixelOp>> ops;
    ops.push_back(std::make_unique<Identity>());
    ops.push_back(std::make_unique<Brightness>(1.7));
    ops.push_back(std::make_unique<Contrast>(1.7));
    ops.push_back(std::make_unique<Saturation>(1.7));
    ops.push_back(std::make_unique<Sharpness>(1.7));
    ops.push_back(std::make_unique<Hue>(0.3));
    Posterize posterize;
    posterize.bits = 5;
    ops.push_back(std::make_unique<Posterize>(posterize));
    Solarize solarize;
    solarize.threshold = 100.0;
    ops.push_back(std::make_unique<Solarize>(solarize));
    PointTable table;
    for (std::size_t i = 0; i < 768; ++i) table.table.push_back(static_cast<std::byte>(i * i / 7));
    ops.push_back(std::make_unique<PointTable>(table));
    ops.push_back(std::make_unique<Autocontrast>());
    ops.push_back(std::make_unique<Equalize>());
    ops.push_back(std::make_unique<Invert>());
    ops.push_back(std::make_unique<Grayscale>());
    ops.push_back(std::make_unique<Affine>(affine()));
    ops.push_back(std::make_unique<Rotate90>());
    ops.push_back(std::make_unique<Rotate180>());
    ops.push_back(std::make_unique<Rotate270>());
    return ops;
}

constexpr std::int32_t kSides[] = {1, 2, 3, 7, 8, 9, 31, 32, 33, 255, 257};

// Calls `check(width, height)` for sizes around the blocks that loops work in.
template <typename Check>
void for_each_size(Check check) {
    for (const std::int32_t width : kSides) {
        for (const std::int32_t height : {1, 2, 3, 8, 33}) check(width, height);
    }
}

}  // namespace

// A window of a larger image: neither the bytes beside it nor their values matter.
TEST_CASE(pixel_ops_see_their_window_only) {
    for_each_size([](std::int32_t width, std::int32_t height) {
        for (const auto& op : all_ops()) {
            TightImage around(width + 5, height + 4, 7);
            TightImage alone(width, height);
            PlanarImageView window = around.view();
            for (std::size_t plane = 0; plane < 3; ++plane) {
                window.planes[plane] += 2 * window.row_stride_bytes + 3;
                for (std::int32_t y = 0; y < height; ++y) {
                    std::copy_n(window.planes[plane] + static_cast<std::size_t>(y) * window.row_stride_bytes, width,
                                alone.view().planes[plane] + y * width);
                }
            }
            window.width = width;
            window.height = height;
            const TightImage before = around;
            const ImageSize size = op->size_after({width, height});
            TightImage result(size.width, size.height);
            run(*op, window, result.view());
            const TightImage expected = run(*op, alone);
            int differences = 0;
            for (std::size_t plane = 0; plane < 3; ++plane) {
                for (std::int32_t y = 0; y < height + 4; ++y) {
                    for (std::int32_t x = 0; x < width + 5; ++x) {
                        const bool is_inside = x >= 3 && x < 3 + width && y >= 2 && y < 2 + height;
                        const bool is_changed = is_in_place(*op) && is_inside;
                        differences += around.at(plane, x, y) !=
                                       (is_changed ? expected.at(plane, x - 3, y - 2) : before.at(plane, x, y));
                    }
                }
            }
            CHECK_EQUAL(differences, 0);
            CHECK(is_in_place(*op) || result == expected);
        }
    });
}

TEST_CASE(affine_takes_any_finite_matrix) {
    const TightImage image(33, 9, 6);
    std::mt19937 random(1);
    std::uniform_real_distribution<double> exponent(-320.0, 300.0);
    Affine op = affine();
    for (int i = 0; i < 2000; ++i) {
        for (double& number : op.matrix) {
            number = std::pow(10.0, exponent(random) / (i % 2 == 0 ? 1.0 : 60.0)) * (random() % 2 == 0 ? -1.0 : 1.0);
        }
        if (i % 3 == 0) op.matrix[1] = op.matrix[3] = 0.0;
        for (const Interpolation interpolation : kAffineInterpolations) {
            op.interpolation = interpolation;
            for_each_kernel_table([&](const KernelTable& kernels) { run(op, image, kernels); });
        }
    }
}

TEST_CASE(affine_kernels_give_what_the_scalar_one_gives) {
    std::mt19937 random(2);
    std::uniform_real_distribution<double> element(-1.5, 1.5);
    for_each_size([&](std::int32_t width, std::int32_t height) {
        const TightImage image(width, height, 3);
        for (int i = 0; i < 12; ++i) {
            Affine op = affine();
            for (double& number : op.matrix) number = element(random);
            op.matrix[2] *= width;
            op.matrix[5] *= height;
            if (i < 4) op.matrix = {1.0, 0.01 * i, 0.3, -0.02 * i, 1.0, 0.25};  // most pixels are inside
            for (const Interpolation interpolation : kAffineInterpolations) {
                op.interpolation = interpolation;
                const TightImage expected = run(op, image);
                for_each_kernel_table([&](const KernelTable& kernels) { CHECK(run(op, image, kernels) == expected); });
            }
        }
    });
}

TEST_CASE(nearest_positions_are_inside_or_none) {
    std::vector<std::int32_t> positions(65536);
    for (const std::int32_t limit : {1, 3, 100, 65535}) {
        for (const std::int32_t count : {1, 7, 65535}) {
            const double step = static_cast<double>(limit) / count;
            find_nearest_positions({0.0, step}, limit, count, positions.data());
            for (std::int32_t i = 0; i < count; ++i) {
                CHECK(positions[static_cast<std::size_t>(i)] >= 0 && positions[static_cast<std::size_t>(i)] < limit);
            }
        }
    }
    find_nearest_positions({-2.0, 1.0}, 2, 5, positions.data());
    CHECK(std::equal(positions.begin(), positions.begin() + 5, std::begin({-1, -1, 0, 1, -1})));
}

}  // namespace fastload
