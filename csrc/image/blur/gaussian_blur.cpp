#include "image/blur/gaussian_blur.h"

#include <algorithm>

#include "base/checked_math.h"
#include "image/pixels/pixel_buffers.h"

namespace fastload {
namespace {

// The kernel without its outer rows and columns of zeros, which change no sum. Large kernels have them if sigma is
// small: the weights are too small for float32.
struct Kernel {
    const float* weights = nullptr;
    std::int32_t width = 0;
    std::int32_t height = 0;
};

// The first weight that is not zero after multiplication with the largest one of the other axis. Both axes are highest
// in their middle, and their zeros are symmetric.
std::size_t first_nonzero(const float* weights, float other_largest) noexcept {
    std::size_t first = 0;
    while (weights[first] * other_largest == 0.0F) ++first;
    return first;
}

// `weights` has room for a whole kernel. Its elements are products of the axes' weights, each rounded once.
Kernel make_kernel(const GaussianKernel& blur, float sigma, float* weights) noexcept {
    float rows[kMaxBlurSize];
    float columns[kMaxBlurSize];
    const std::size_t height = blur.rows.size();
    const std::size_t width = blur.columns.size();
    compute_gaussian_weights(blur, blur.rows, sigma, rows);
    compute_gaussian_weights(blur, blur.columns, sigma, columns);
    const std::size_t top = first_nonzero(rows, columns[width / 2]);
    const std::size_t left = first_nonzero(columns, rows[height / 2]);
    const std::size_t kept_width = width - 2 * left;
    for (std::size_t i = top; i < height - top; ++i) {
        for (std::size_t j = left; j < width - left; ++j) {
            weights[(i - top) * kept_width + j - left] = rows[i] * columns[j];
        }
    }
    return {weights, static_cast<std::int32_t>(kept_width), static_cast<std::int32_t>(height - 2 * top)};
}

std::int32_t mirrored(std::int32_t position, std::int32_t length) noexcept {
    if (position < 0) return -position;
    return position < length ? position : 2 * (length - 1) - position;
}

// One row, with `reach` mirrored columns on both sides.
void pad_row(const std::uint8_t* row, std::int32_t width, std::int32_t reach, float* padded) noexcept {
    for (std::int32_t x = 0; x < reach; ++x) padded[x] = row[reach - x];
    for (std::int32_t x = 0; x < width; ++x) padded[reach + x] = row[x];
    for (std::int32_t x = 0; x < reach; ++x) padded[reach + width + x] = row[width - 2 - x];
}

// A plane of floats with the mirrored pixels that the kernel reads around it.
struct PaddedPlane {
    float* values = nullptr;
    std::size_t stride = 0;
};

void pad_plane(const std::uint8_t* plane, const PlanarImageView& source, const Kernel& kernel,
               const PaddedPlane& padded) noexcept {
    const std::int32_t reach = kernel.height / 2;
    const auto used = static_cast<std::size_t>(source.width + kernel.width - 1);
    for (std::int32_t y = -reach; y < source.height + reach; ++y) {
        float* row = padded.values + static_cast<std::size_t>(y + reach) * padded.stride;
        const auto shown = static_cast<std::size_t>(mirrored(y, source.height));
        pad_row(plane + shown * source.row_stride_bytes, source.width, kernel.width / 2, row);
        std::fill(row + used, row + padded.stride, 0.0F);
    }
}

// Memory for the weights, followed by a padded plane.
bool count_scratch(const GaussianKernel& blur, const PlanarImageView& source, std::size_t* stride,
                   std::size_t* bytes) noexcept {
    constexpr std::size_t kLine = AlignedBuffer::kAlignment / sizeof(float);
    const std::size_t num_weights = blur.columns.size() * blur.rows.size();
    const std::size_t num_rows = static_cast<std::size_t>(source.height) + blur.rows.size() - 1;
    return checked_round_up(static_cast<std::size_t>(source.width) + kBlurColumnAlignment + blur.columns.size(), kLine,
                            stride) &&
           checked_multiply(*stride, num_rows, bytes) && checked_add(*bytes, num_weights + kLine, bytes) &&
           checked_multiply(*bytes, sizeof(float), bytes);
}

// Calls `run(plane, &job)`, which sets the job's destination, and convolves each plane.
template <typename Run>
Status blur_planes(const GaussianKernel& blur, float sigma, const PlanarImageView& source, AlignedBuffer* scratch,
                   BlurJob job, Run run) noexcept {
    PaddedPlane padded;
    std::size_t bytes = 0;
    if (!count_scratch(blur, source, &padded.stride, &bytes)) return image_too_large();
    if (Status status = scratch->reserve(bytes); !status.is_ok()) return status;
    padded.values = reinterpret_cast<float*>(scratch->data());
    float* weights = padded.values + padded.stride * (static_cast<std::size_t>(source.height) + blur.rows.size() - 1);
    const Kernel kernel = make_kernel(blur, sigma, weights);
    job.padded = padded.values;
    job.padded_stride = padded.stride;
    job.weights = kernel.weights;
    job.kernel_width = kernel.width;
    job.kernel_height = kernel.height;
    job.width = source.width;
    job.height = source.height;
    for (int plane = 0; plane < 3; ++plane) {
        pad_plane(source.planes[plane], source, kernel, padded);
        run(plane, &job);
    }
    return Status::ok();
}

}  // namespace

bool fits_blur(const GaussianKernel& blur, ImageSize size) noexcept {
    return blur.columns.size() / 2 < static_cast<std::size_t>(size.width) &&
           blur.rows.size() / 2 < static_cast<std::size_t>(size.height);
}

Status blur_image(const GaussianKernel& blur, float sigma, BlurFunction kernel, const PlanarImageView& source,
                  const PlanarImageView& destination, AlignedBuffer* scratch) noexcept {
    BlurJob job;
    job.destination_stride_bytes = destination.row_stride_bytes;
    return blur_planes(blur, sigma, source, scratch, job, [&](int plane, BlurJob* plane_job) {
        plane_job->destination = destination.planes[plane];
        kernel(*plane_job);
    });
}

Status blur_unrounded(const GaussianKernel& blur, float sigma, BlurFunction kernel, const PlanarImageView& source,
                      float* sums, std::size_t stride, AlignedBuffer* scratch) noexcept {
    BlurJob job;
    job.sums_stride = stride;
    return blur_planes(blur, sigma, source, scratch, job, [&](int plane, BlurJob* plane_job) {
        plane_job->sums = sums + static_cast<std::size_t>(plane * source.height) * stride;
        kernel(*plane_job);
    });
}

}  // namespace fastload
