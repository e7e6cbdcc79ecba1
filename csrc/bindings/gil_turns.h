// Native work after which threads take the GIL again in turns: Note [turns at the GIL].
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "engine/brief_turns.h"
#include "python/without_gil.h"

namespace fastload {

// The turns of all threads that make images for Python.
inline BriefTurns gil_turns;

// The turn of the calling thread, which has the GIL; none before its first native work.
inline thread_local std::optional<std::int64_t> gil_turn;

// Like without_gil().
template <typename Body>
auto between_turns(Body&& body) {
#ifdef Py_GIL_DISABLED
    return without_gil(std::forward<Body>(body));
#else
    if (gil_turn) gil_turns.end(*gil_turn, BriefTurns::now_ns());
    std::int64_t taken = 0;
    const auto result = without_gil([&] {
        const auto made = body();
        taken = gil_turns.take();
        return made;
    });
    gil_turn = gil_turns.begin(taken);
    return result;
#endif
}

}  // namespace fastload
