#include "python/thread_generators.h"

#include <utility>

namespace fastload {

__thread ThreadSetting thread_setting __attribute__((tls_model("initial-exec"))) = {nullptr, nullptr};

__thread PyObject* thread_draws __attribute__((tls_model("initial-exec"))) = nullptr;

Ref exchange_thread_draws(PyObject* take_generator) noexcept {
    Py_XINCREF(take_generator);
    return Ref::steal(std::exchange(thread_draws, take_generator));
}

Ref exchange_thread_generators(ThreadGenerators* generators, PyObject* owner) noexcept {
    Py_XINCREF(owner);
    return Ref::steal(std::exchange(thread_setting, ThreadSetting{generators, owner}).owner);
}

}  // namespace fastload
