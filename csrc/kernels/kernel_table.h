// The pixel kernels of one instruction set. Every variant gives the same bytes as the scalar one.
#pragma once

#include "kernels/affine.h"
#include "kernels/block_sums.h"
#include "kernels/blur.h"
#include "kernels/box_blur.h"
#include "kernels/coefficients.h"
#include "kernels/color.h"
#include "kernels/convert.h"
#include "kernels/idct.h"
#include "kernels/resize.h"
#include "kernels/stream_copy.h"
#include "kernels/unstuff.h"
#include "kernels/upsample.h"

namespace fastload {

// Function pointers, so that a plan picks a table once and the hot loops do not ask again. The contract of each member
// is in the header named after the operation.
struct KernelTable {
    const char* name;  // "scalar", "avx2", "avx512"
    bool has_bmi2;     // selects portable code elsewhere that is compiled a second time with these instructions
    bool has_fma;      // the fused multiply-add of `blur` is an instruction, not a function
    BlockSumsFunction block_sums;
    FindMarkerFunction* find_marker;
    InverseDctFunction* inverse_dct;
    PackBlocksFunction* pack_blocks;
    SkipBlocksFunction* skip_blocks;
    ReconstructBlocksFunction* reconstruct_blocks;
    UpsampleH2v1Function* upsample_h2v1;
    UpsampleH1v2Function* upsample_h1v2;
    UpsampleH2v2Function* upsample_h2v2;
    YccToRgbFunction* ycc_to_rgb;
    ResizeScratchFunction* resize_scratch_bytes;
    ResizeFunction* resize;
    ResizeConvertFunction* resize_convert;
    ConvertRowsFunction* convert_rows;
    ConvertStripsFunction* convert_strips;
    BlurFunction* blur;
    BoxBlurFunction* box_blur;
    AffineFunction* affine_bilinear;
    AffineFunction* affine_bicubic;
    StreamCopyFunction* stream_copy;
};

}  // namespace fastload
