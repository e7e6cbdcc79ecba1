// The kernels that decode samples on a device, run on the host: thread by thread, the last one first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/span.h"
#include "cuda/decode/batch.h"
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
    explicit EmulatedScan(ByteSpan wire) : wire_(std::make_unique<GuardedMemory>(wire.size())) {
        std::memcpy(wire_->last(wire.size()), wire.data(), wire.size());
        sample_.wire = wire_->last(wire.size());
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

    // A sample of a batch, which has the memory.
    explicit EmulatedScan(const ScanSample& sample) : sample_(sample) {}

    // Returns the first fault of a piece.
    PieceFault decode_entropy(int threads) {
        std::memset(sample_.scratch, 0, ScanScratch(sample_.head()).samples);
        return decode_pieces(threads);
    }

    // The same where the coefficients are zero.
    PieceFault decode_pieces(int threads) {
        const ScanHead& head = sample_.head();
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
        finish(threads);
        return fault;
    }

    // All that follows the entropy decoder.
    void finish(int threads) {
        transform();
        make_region(static_cast<std::uint64_t>(threads));
        resize(static_cast<std::uint64_t>(threads));
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
    std::unique_ptr<GuardedMemory> wire_;
    std::unique_ptr<GuardedMemory> scratch_;
    std::unique_ptr<GuardedMemory> pixels_;
    std::size_t pixel_bytes_ = 0;
    ScanSample sample_;
};

// A batch, decoded run by run as launch_decode() queues it.
class EmulatedBatch {
  public:
    // Appends a sample: a wire, or in pixel form the pixels.
    void add(SampleForm form, ByteSpan bytes) {
        forms_.push_back(form);
        samples_.emplace_back(bytes.begin(), bytes.end());
    }

    // Decodes all of it with scratch memory of this size. `pixel_bytes` are of one sample.
    void run(std::uint64_t scratch_bytes, std::uint64_t pixel_bytes, int threads) {
        run(make_wire(), static_cast<std::uint32_t>(samples_.size()), scratch_bytes, pixel_bytes, threads);
    }

    // Decodes a wire whose samples have no scratch memory yet.
    void run(std::vector<std::uint8_t> host, std::uint32_t num_samples, std::uint64_t scratch_bytes,
             std::uint64_t pixel_bytes, int threads) {
        place_scratch(host.data(), num_samples, scratch_bytes);
        GuardedMemory wire(host.size());
        GuardedMemory scratch(scratch_bytes);
        pixels_.assign(num_samples * pixel_bytes, 0xA5);
        faults_.assign(num_samples, 0xA5A5A5A5);
        std::memcpy(wire.last(host.size()), host.data(), host.size());
        DecodeBatch batch;
        batch.host_wire = host.data();
        batch.wire = wire.last(host.size());
        batch.scratch = scratch.last(scratch_bytes);
        batch.pixels = pixels_.data();
        batch.faults = faults_.data();
        batch.pixel_bytes = pixel_bytes;
        batch.num_samples = num_samples;
        num_runs_ = 0;
        for (std::uint32_t first = 0; first < batch.num_samples; ++num_runs_) {
            const DecodeRun run = run_from(batch, first);
            std::memset(batch.scratch, 0x5A, scratch_bytes);  // as the run before has left it
            decode_run(batch, run, threads);
            first += run.count;
        }
    }

    int num_runs() const { return num_runs_; }
    const std::vector<std::uint8_t>& pixels() const { return pixels_; }
    const std::vector<std::uint32_t>& faults() const { return faults_; }

  private:
    std::vector<std::uint8_t> make_wire() const {
        std::vector<std::uint8_t> wire(sizeof(WireEntry) * samples_.size());
        for (std::size_t i = 0; i < samples_.size(); ++i) {
            const WireEntry entry = {forms_[i], static_cast<std::uint32_t>(wire.size() / 16),
                                     static_cast<std::uint32_t>((samples_[i].size() + 15) / 16), 0};
            wire.insert(wire.end(), samples_[i].begin(), samples_[i].end());
            wire.resize((wire.size() + 15) / 16 * 16);
            std::memcpy(wire.data() + sizeof entry * i, &entry, sizeof entry);
        }
        return wire;
    }

    // Each kernel is over for all samples before the next one begins.
    static void decode_run(const DecodeBatch& batch, const DecodeRun& run, int threads) {
        const auto stride = static_cast<std::uint64_t>(threads);
        for (std::uint32_t i = run.count; i-- > 0;) {
            for_each_thread(stride, [&](ThreadShare share) { prepare_sample(batch, run.first + i, share); });
        }
        for (std::uint32_t i = run.count; i-- > 0;) {
            const BatchSample sample = sample_of(batch, run.first + i);
            if (!sample.is_scan) continue;
            const PieceFault fault = EmulatedScan(sample.scan).decode_pieces(threads);
            if (fault != PieceFault::kNone) batch.faults[run.first + i] = static_cast<std::uint32_t>(fault);
        }
        for (std::uint32_t i = run.count; i-- > 0;) {
            const BatchSample sample = sample_of(batch, run.first + i);
            if (sample.is_scan) EmulatedScan(sample.scan).finish(threads);
        }
    }

    std::vector<SampleForm> forms_;
    std::vector<std::vector<std::uint8_t>> samples_;
    std::vector<std::uint8_t> pixels_;
    std::vector<std::uint32_t> faults_;
    int num_runs_ = 0;
};

}  // namespace fastload::testing
