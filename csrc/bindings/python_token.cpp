#include "bindings/python_token.h"

#include <new>
#include <utility>

#include "engine/deferred_releases.h"

namespace py = pybind11;

namespace fastload {
namespace {

// The process's list. Touched under the GIL only; a forked child starts a new one. Never destroyed: threads may outlive
// the module.
std::shared_ptr<DeferredReleases>& deferred_releases() {
    static auto* list = new std::shared_ptr<DeferredReleases>(std::make_shared<DeferredReleases>());
    if ((*list)->is_forked()) *list = std::make_shared<DeferredReleases>();
    return *list;
}

}  // namespace

std::shared_ptr<void> make_token(py::object object) {
    const auto leave_in_list = [list = deferred_releases()](void* token) noexcept { list->add(token); };
    return {object.release().ptr(), leave_in_list};
}

py::object object_of(const std::shared_ptr<void>& token) {
    return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(token.get()));
}

void run_deferred_releases() noexcept {
    try {
        for (void* token : deferred_releases()->take_all()) py::handle(static_cast<PyObject*>(token)).dec_ref();
    } catch (const std::bad_alloc&) {
        return;  // they stay in the list
    }
}

}  // namespace fastload
