// Python objects owned by native code, which may let go of them in any thread.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace fastload {

// Keeps `object` alive; see Note [tokens]. Call with the GIL; the result may be dropped without it. A forked child
// leaks the tokens of its parent.
std::shared_ptr<void> make_token(pybind11::object object);

// The object of a token.
pybind11::object object_of(const std::shared_ptr<void>& token);

// Releases the objects whose last token is gone. Call with the GIL; runs whatever their ends run.
void run_deferred_releases() noexcept;

}  // namespace fastload
