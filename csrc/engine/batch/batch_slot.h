// The state of one batch in flight.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/mt19937_stream.h"
#include "base/status.h"
#include "engine/batch/staging_ring.h"
#include "engine/sample/sample_task.h"

namespace fastload {

struct SampleError {
    std::size_t position = 0;  // in the batch
    std::int64_t sample_index = 0;
    Status status;
    std::shared_ptr<void> python_error;  // opaque here; set if the reference decoder raised
};

// The progress of a sample towards its random numbers; see Note [draw order].
struct SampleTurn {
    bool has_size = false;   // in its report
    bool is_lost = false;    // failed before its turn: it draws nothing
    bool is_parked = false;  // its work continues when it has drawn
    bool has_drawn = false;
    Status status;  // of its choices, once drawn
};

// A sample that is not in its batch, because it is replaced or left out, but has drawn nevertheless: its transform
// could not be applied to it, and random numbers were drawn until that showed.
struct LostDraws {
    std::size_t position = 0;  // position of the sample that draws after it; the batch's size if it comes last
    ImageSize source_size;
};

// Note [slot lifetime]
// free -> filling -> ready -> handed over -> free. A slot is filling from submit() until its last sample has finished,
// ready until the consumer takes it in order, and handed over while the consumer may still ask for its report. Then the
// lane reuses it, so that a warm epoch allocates nothing here. `memory` keeps the batch's bytes alive while tasks may
// write to them: it leaves the slot when the batch is handed over or, after a cancel, when the last thread drops the
// slot. A thread that hangs in a read therefore keeps its memory for as long as it hangs.
struct BatchSlot {
    // The source of draws for the sample at a position, if draws have no order.
    CounterDraws counter_draws(const SampleSource& source, std::size_t position) const noexcept {
        return {source.seed, source.epoch, static_cast<std::uint64_t>(sample_indices[position]),
                draw_numbers.empty() ? 0 : draw_numbers[position]};
    }

    // Set by submit(), then read-only until the slot is free again.
    std::vector<std::int64_t> sample_indices;
    std::vector<std::uint32_t> draw_numbers;  // one for each sample, or none: Note [counter layout]
    std::vector<LostDraws> lost_draws;        // sorted by position
    std::vector<std::uint8_t*> images;        // one for each view
    std::shared_ptr<void> memory;
    std::shared_ptr<BatchCopy> copy;  // to a device; null: the batch stays where it is written

    // Each element belongs to the task of that position until the batch is ready.
    std::vector<SampleReport> reports;
    std::vector<std::unique_ptr<SampleFile>> files;  // null while the sample is not in work

    // Guarded by the work queue's mutex; not used without threads.
    std::size_t next_position = 0;

    // Guarded by the lane's mutex.
    bool is_ready = false;  // while it is in flight
    std::size_t samples_left = 0;
    std::vector<SampleError> errors;  // sorted by position, whatever the order of events; with room for all samples
    // Used if the draws of a lane have an order.
    std::vector<SampleTurn> turns;
    bool has_begun_to_draw = false;    // its turn has come
    std::size_t num_drawn = 0;         // number of samples from the first one on that have drawn
    std::size_t num_lost_drawn = 0;    // number of lost_draws that have drawn
    std::vector<std::size_t> revived;  // indices in lost_draws of samples that do not fail with what they draw now
    SampleReport lost_report;          // scratch for lost_draws
    Mt19937Stream draws_before;        // torch's generator before the first sample, once the batch has begun to draw

    const SampleError* first_error() const noexcept { return errors.empty() ? nullptr : &errors.front(); }
    // Keeps `errors` sorted. There is room for it.
    void add_error(SampleError error) noexcept {
        const auto behind = [&](const SampleError& other) { return other.position > error.position; };
        errors.insert(std::find_if(errors.begin(), errors.end(), behind), std::move(error));
    }
    // True if that sample has failed in its random choices, and has drawn until then.
    bool has_drawn_and_failed(const SampleError& error) const noexcept {
        return !turns.empty() && turns[error.position].has_drawn &&
               turns[error.position].status.code == error.status.code;
    }
};

}  // namespace fastload
