// The kernels that decode a sample in scan form, run on the host: thread by thread, the last one first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/span.h"
#include "cuda/decode/entropy.h"
#include "cuda/decode/inverse_dct.h"
#include "cuda/decode/resize.h"
#include "cuda/decode/rgb.h"
#include "cuda/decode/scan_sample.h"
#include "guarded_memory.h"

namespace fastload::testing {

// Calls run({thread, threads}) for each thread.
template <typename Run>
void for_each_thread(std::uint64_t threads, Run run) {
    for (std::uint64_t thread = threads; thread-- > 0;) run(ThreadShare{thread, threads});
}

// One sample and its memory. After each part of it lies memory that ends the process when it is touched.
class EmulatedScan {
  public:
    // `wire` holds a head that is_valid_scan() accepts.
    explicit EmulatedScan(ByteSpan wire) : wire_(wire.size()) {
        std::memcpy(wire_.last(wire.size()), wire.data(), wire.size());
        sample_.wire = wire_.last(wire.size());
        const ScanHead& head = sample_.head();
        const std::size_t scratch_bytes = ScanScratch(head).end;
        pixel_bytes_ = num_scan_pixel_bytes(head);
        scratch_ = std::make_unique<GuardedMemory>(scratch_bytes);
        pixels_ = std::make_unique<GuardedMemory>(pixel_bytes_);
        sample_.scratch = scratch_->last(scratch_bytes);
        sample_.pixels = pixels_->last(pixel_bytes_);
        // A device's memory holds what was there before.
        std::memset(sample_.scratch, 0xA5, scratch_bytes);
        std::memset(sample_.pixels, 0xA5, pixel_bytes_);
    }

    // Returns the first fault of a piece.
    PieceFault decode_entropy(int threads) {
        const ScanHead& head = sample_.head();
        std::memset(sample_.scratch, 0, ScanScratch(head).samples);
        const auto tables = std::make_unique<EntropyTables>();
        for (int lane = threads; lane-- > 0;) begin_tables(sample_, lane, threads, tables.get());
        for (int lane = threads; lane-- > 0;) fill_lookups(sample_, lane, threads, tables.get());
        PieceFault first = PieceFault::kNone;
        for (std::uint32_t piece = head.num_places; piece-- > 0;) {
            const PieceFault fault = decode_piece(sample_, *tables, piece);
            if (fault != PieceFault::kNone) first = fault;
        }
        return first;
    }

    void transform() {
        for (std::uint64_t number = num_scan_blocks(sample_.head()); number-- > 0;) {
            transform_block(window_block(sample_, static_cast<std::uint32_t>(number)));
        }
    }

    void make_region(std::uint64_t threads) {
        for_each_thread(threads, [&](ThreadShare share) { make_rgb(sample_, share); });
    }

    void resize(std::uint64_t threads) {
        const ScanHead& head = sample_.head();
        for_each_thread(threads, [&](ThreadShare share) { make_all_weights(sample_, share); });
        for (const bool is_last : {false, true}) {
            if (is_last ? !has_a_pass(head) : !has_two_passes(head)) continue;
            const ResizePass pass = resize_pass(sample_, is_last);
            for_each_thread(threads, [&](ThreadShare share) { run_pass(sample_, pass, share); });
        }
        for_each_thread(threads, [&](ThreadShare share) { write_pixels(sample_, share); });
    }

    PieceFault run(int threads) {
        const PieceFault fault = decode_entropy(threads);
        transform();
        make_region(static_cast<std::uint64_t>(threads));
        resize(static_cast<std::uint64_t>(threads));
        return fault;
    }

    const ScanSample& sample() const { return sample_; }
    // uint8[height, width, 3]
    ByteSpan pixels() const { return {sample_.pixels, pixel_bytes_}; }
    std::uint8_t* region() const { return sample_.scratch + ScanScratch(sample_.head()).region; }

    static void transform_block(const WindowBlock& block) {
        DctColumn columns[8];
        bool has_below = false;
        for (int lane = 8; lane-- > 0;) {
            columns[lane] = load_column(block, lane);
            has_below |= columns[lane].has_below;
        }
        std::int16_t middle[8][8];
        for (int lane = 8; lane-- > 0;) transform_column(columns[lane], has_below, lane, middle);
        for (int lane = 8; lane-- > 0;) transform_row(middle, lane, block);
    }

  private:
    GuardedMemory wire_;
    std::unique_ptr<GuardedMemory> scratch_;
    std::unique_ptr<GuardedMemory> pixels_;
    std::size_t pixel_bytes_ = 0;
    ScanSample sample_;
};

}  // namespace fastload::testing
