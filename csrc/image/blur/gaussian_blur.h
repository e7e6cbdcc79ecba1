// torchvision's GaussianBlur of a PIL image: a convolution in torch, with weights that torch computes.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/status.h"
#include "image/blur/torch_gaussian.h"
#include "image/random/draw_source.h"
#include "kernels/blur.h"

namespace fastload {

constexpr std::size_t kMaxBlurSize = 127;

// The weights of an axis are computed from the positions of torch.linspace, an odd number of them. v1 divides exp(-(p /
// sigma)^2 / 2) by the sum of all, v2 is softmax(-(p / sigma)^2).
struct GaussianKernel {
    TorchvisionFamily family = TorchvisionFamily::kV1;
    std::vector<float> columns;  // positions of the kernel's columns, at most kMaxBlurSize
    std::vector<float> rows;     // positions of its rows
    std::size_t sum_lanes = 0;   // number of partial sums in which torch adds the weights of an axis
    std::shared_ptr<const TorchGaussian> torch_gaussian;  // v1; null: the correctly rounded values
};

// The weights of an axis, one for each position.
void compute_gaussian_weights(const GaussianKernel& blur, const std::vector<float>& positions, float sigma,
                              float* weights) noexcept;

// True if an image of `size` can be mirrored as far as the kernel reaches.
bool fits_blur(const GaussianKernel& blur, ImageSize size) noexcept;

// Blurs an image into `destination`, which has the same size and does not overlap; its rows have room for whole blocks
// of columns (kernels/blur.h). Fails with kOutOfMemory and kInvalidGeometry (too large) only.
Status blur_image(const GaussianKernel& blur, float sigma, BlurFunction kernel, const PlanarImageView& source,
                  const PlanarImageView& destination, AlignedBuffer* scratch) noexcept;

// The same blur before its sums are rounded: planes of image height rows, `stride` floats apart, which is the width
// rounded up to kBlurColumnAlignment. For comparisons with torch's sums, which show more than their rounded values.
Status blur_unrounded(const GaussianKernel& blur, float sigma, BlurFunction kernel, const PlanarImageView& source,
                      float* sums, std::size_t stride, AlignedBuffer* scratch) noexcept;

}  // namespace fastload
