#include "kernels/dispatch.h"

#include <cstdlib>
#include <cstring>

namespace fastload {
namespace {

constexpr KernelTable kScalarTable = {
    "scalar",
    unstuff_scalar,
    inverse_dct_scalar,
    upsample_h2v1_scalar,
    upsample_h1v2_scalar,
    upsample_h2v2_scalar,
    ycc_to_rgb_scalar,
    resize_scratch_bytes_scalar,
    resize_scalar,
    convert_rows_scalar,
    convert_strips_scalar,
};

}  // namespace

const char* requested_kernel_table() noexcept {
    const char* value = std::getenv("FASTLOAD_SIMD");
    return value == nullptr ? "" : value;
}

const KernelTable* select_kernel_table() noexcept {
    const char* forced = requested_kernel_table();
    if (*forced == '\0' || std::strcmp(forced, kScalarTable.name) == 0) return &kScalarTable;
    return nullptr;
}

const char* available_kernel_tables() noexcept { return kScalarTable.name; }

}  // namespace fastload
