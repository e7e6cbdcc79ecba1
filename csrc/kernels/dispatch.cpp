#include "kernels/dispatch.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "kernels/target_region.h"

namespace fastload {
namespace {

#if defined(__FP_FAST_FMAF)
constexpr bool kHasFma = true;
#else
constexpr bool kHasFma = false;
#endif

// The kernels whose names end in `suffix`, in the order of a KernelTable.
#define FASTLOAD_KERNELS(suffix)                                                                                    \
    block_sums_##suffix, find_marker_##suffix, inverse_dct_##suffix, pack_blocks_##suffix, skip_blocks_##suffix,    \
        reconstruct_blocks_##suffix, upsample_h2v1_##suffix, upsample_h1v2_##suffix, upsample_h2v2_##suffix,        \
        ycc_to_rgb_##suffix, resize_scratch_bytes_##suffix, resize_##suffix, resize_convert_##suffix,               \
        convert_rows_##suffix, convert_strips_##suffix, blur_##suffix, box_blur_##suffix, affine_bilinear_##suffix, \
        affine_bicubic_##suffix, stream_copy_##suffix

constexpr KernelTable kScalarTable = {"scalar", false, kHasFma, FASTLOAD_KERNELS(scalar)};

#if FASTLOAD_HAS_X86_KERNELS

constexpr KernelTable kAvx2Table = {"avx2", true, true, FASTLOAD_KERNELS(avx2)};

constexpr KernelTable make_avx512_table() {
    KernelTable table = kAvx2Table;
    table.name = "avx512";
    table.block_sums = block_sums_avx512;
    table.inverse_dct = inverse_dct_avx512;
    table.pack_blocks = pack_blocks_avx512;
    table.reconstruct_blocks = reconstruct_blocks_avx512;
    table.resize_scratch_bytes = resize_scratch_bytes_avx512;
    table.resize = resize_avx512;
    table.resize_convert = resize_convert_avx512;
    table.convert_rows = convert_rows_avx512;
    table.convert_strips = convert_strips_avx512;
    return table;
}
constexpr KernelTable kAvx512Table = make_avx512_table();

bool has_avx2() noexcept {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

bool has_avx512() noexcept {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512vnni");
}

#endif

struct RunnableTables {
    const KernelTable* tables[3] = {};
    std::size_t count = 0;

    RunnableTables() noexcept {
#if FASTLOAD_HAS_X86_KERNELS
        if (has_avx512()) tables[count++] = &kAvx512Table;
        if (has_avx2()) tables[count++] = &kAvx2Table;
#endif
        tables[count++] = &kScalarTable;
    }
};

}  // namespace

Span<const KernelTable* const> runnable_kernel_tables() noexcept {
    static const RunnableTables runnable;
    return {runnable.tables, runnable.count};
}

const char* requested_kernel_table() noexcept {
    const char* value = std::getenv("FASTLOAD_SIMD");
    return value == nullptr ? "" : value;
}

const KernelTable* select_kernel_table() noexcept {
    const char* forced = requested_kernel_table();
    for (const KernelTable* table : runnable_kernel_tables()) {
        if (*forced == '\0' || std::strcmp(forced, table->name) == 0) return table;
    }
    return nullptr;
}

}  // namespace fastload
