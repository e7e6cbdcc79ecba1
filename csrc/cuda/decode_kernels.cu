#include "cuda/decode_kernels.h"

#include <algorithm>
#include <cstdint>

#include "cuda/decode/batch.h"
#include "cuda/decode/entropy.h"
#include "cuda/decode/inverse_dct.h"
#include "cuda/decode/resize.h"
#include "cuda/decode/rgb.h"
#include "cuda/kernel_status.h"

namespace fastload {
namespace {

constexpr unsigned kPieceThreads = 64;
constexpr unsigned kThreads = 256;
constexpr unsigned kDctBlocks = kThreads / 8;
// For the kernels whose threads take turns: a run has several waves of any GPU, and each sample at least a few blocks.
constexpr std::uint64_t kMaxBlocksOfRun = 4096;
constexpr std::uint64_t kMinBlocksOfSample = 16;

// In all kernels y of the grid is the sample of the run.
__device__ std::uint32_t sample_number(std::uint32_t first) { return first + blockIdx.y; }

__device__ ThreadShare thread_share() {
    return {std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, std::uint64_t{gridDim.x} * blockDim.x};
}

__global__ void __launch_bounds__(kThreads) prepare(DecodeBatch batch, std::uint32_t first) {
    prepare_sample(batch, sample_number(first), thread_share());
}

// A block is up to 64 pieces of one sample, whose tables its threads make together.
__global__ void __launch_bounds__(kPieceThreads) decode_entropy(DecodeBatch batch, std::uint32_t first) {
    __shared__ EntropyTables tables;
    const BatchSample sample = sample_of(batch, sample_number(first));
    const std::uint32_t block_begin = blockIdx.x * blockDim.x;
    if (!sample.is_scan || block_begin >= sample.scan.head().num_places) return;
    begin_tables(sample.scan, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), &tables);
    __syncthreads();
    fill_lookups(sample.scan, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), &tables);
    __syncthreads();
    const std::uint32_t piece = block_begin + threadIdx.x;
    if (piece >= sample.scan.head().num_places) return;
    const PieceFault fault = decode_piece(sample.scan, tables, piece);
    if (fault != PieceFault::kNone) batch.faults[sample_number(first)] = static_cast<std::uint32_t>(fault);
}

__global__ void __launch_bounds__(kThreads) inverse_dct(DecodeBatch batch, std::uint32_t first) {
    __shared__ std::int16_t middle[kDctBlocks][8][8];
    const BatchSample sample = sample_of(batch, sample_number(first));
    if (!sample.is_scan) return;
    const auto blocks = static_cast<std::uint32_t>(num_scan_blocks(sample.scan.head()));
    const unsigned slot = threadIdx.x / 8;
    const int lane = static_cast<int>(threadIdx.x % 8);
    for (std::uint32_t begin = blockIdx.x * kDctBlocks; begin < blocks; begin += gridDim.x * kDctBlocks) {
        // All threads of a warp take part in the vote, also those for which there is no block.
        const bool is_there = begin + slot < blocks;
        const WindowBlock block = window_block(sample.scan, is_there ? begin + slot : 0);
        const DctColumn column = load_column(block, lane);
        const unsigned votes = __ballot_sync(0xFFFFFFFF, column.has_below);
        const bool has_below = (votes >> (threadIdx.x & 24) & 0xFF) != 0;
        transform_column(column, has_below, lane, middle[slot]);
        __syncwarp();
        if (is_there) transform_row(middle[slot], lane, block);
        __syncwarp();
    }
}

__global__ void __launch_bounds__(kThreads) make_region(DecodeBatch batch, std::uint32_t first) {
    const BatchSample sample = sample_of(batch, sample_number(first));
    if (sample.is_scan) make_rgb(sample.scan, thread_share());
}

__global__ void __launch_bounds__(kThreads) make_sample_weights(DecodeBatch batch, std::uint32_t first) {
    const BatchSample sample = sample_of(batch, sample_number(first));
    if (sample.is_scan) make_all_weights(sample.scan, thread_share());
}

__global__ void __launch_bounds__(kThreads) resize(DecodeBatch batch, std::uint32_t first, bool is_last) {
    const BatchSample sample = sample_of(batch, sample_number(first));
    if (!sample.is_scan) return;
    const ScanHead& head = sample.scan.head();
    if (is_last ? has_a_pass(head) : has_two_passes(head)) {
        run_pass(sample.scan, resize_pass(sample.scan, is_last), thread_share());
    }
}

__global__ void __launch_bounds__(kThreads) write_result(DecodeBatch batch, std::uint32_t first) {
    const BatchSample sample = sample_of(batch, sample_number(first));
    if (sample.is_scan) write_pixels(sample.scan, thread_share());
}

unsigned blocks_for(std::uint64_t items, std::uint64_t items_per_block, const DecodeRun& run) {
    const std::uint64_t most = std::max(kMinBlocksOfSample, kMaxBlocksOfRun / run.count);
    return static_cast<unsigned>(std::clamp<std::uint64_t>((items + items_per_block - 1) / items_per_block, 1, most));
}

void launch_run(const DecodeBatch& batch, const DecodeRun& run, cudaStream_t stream) noexcept {
    const auto grid = [&](std::uint64_t items, std::uint64_t items_per_block) {
        return dim3(blocks_for(items, items_per_block, run), run.count);
    };
    const dim3 by_pixels = grid(run.pixels, kThreads);
    prepare<<<grid(std::max(8 * run.blocks, batch.pixel_bytes / 16), kThreads), kThreads, 0, stream>>>(batch,
                                                                                                       run.first);
    if (run.blocks == 0) return;
    const dim3 by_pieces(std::max(1U, (run.pieces + kPieceThreads - 1) / kPieceThreads), run.count);
    decode_entropy<<<by_pieces, kPieceThreads, 0, stream>>>(batch, run.first);
    inverse_dct<<<grid(run.blocks, kDctBlocks), kThreads, 0, stream>>>(batch, run.first);
    make_region<<<by_pixels, kThreads, 0, stream>>>(batch, run.first);
    make_sample_weights<<<dim3(1, run.count), kThreads, 0, stream>>>(batch, run.first);
    resize<<<by_pixels, kThreads, 0, stream>>>(batch, run.first, false);
    resize<<<by_pixels, kThreads, 0, stream>>>(batch, run.first, true);
    write_result<<<by_pixels, kThreads, 0, stream>>>(batch, run.first);
}

}  // namespace

DeviceStatus load_decode_kernels(int device) noexcept {
    if (const DeviceStatus status = set_kernel_device(device); !status.is_ok()) return status;
    for (const auto kernel : {prepare, decode_entropy, inverse_dct, make_region, make_sample_weights, write_result}) {
        if (const DeviceStatus status = load_kernel(kernel); !status.is_ok()) return status;
    }
    return load_kernel(resize);
}

DeviceStatus launch_decode(const DecodeBatch& batch, int device, StreamId stream) noexcept {
    if (const DeviceStatus status = set_kernel_device(device); !status.is_ok()) return status;
    for (std::uint32_t first = 0; first < batch.num_samples;) {
        const DecodeRun run = run_from(batch, first);
        launch_run(batch, run, reinterpret_cast<cudaStream_t>(stream));
        if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
            return kernel_status(error, "cudaLaunchKernel");
        }
        first += run.count;
    }
    return {};
}

}  // namespace fastload
