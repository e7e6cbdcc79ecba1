// Objects whose reference counts are never written again (PEP 683), so that processes which share their memory can read
// them without a copy of it.
#pragma once

#include <Python.h>

#include <cstddef>
#include <optional>

#include "python/large_containers.h"
#include "python/sharable_types.h"

namespace fastload {

#if PY_VERSION_HEX >= 0x030C0000 && !defined(Py_GIL_DISABLED) && SIZEOF_VOID_P == 8
constexpr bool kHasImmortalObjects = true;
#else
constexpr bool kHasImmortalObjects = false;
#endif

// Makes the elements of all containers immortal, with all that they reach, and takes them from the collector. An
// element that reaches an object of SharableKind::kOther is left whole, as are containers themselves and what lies on
// the way to them: clearing a container in a worker must end what the program may wait for.
//
// Only for a process that runs no Python code itself and is not the user's: an object stays immortal in it and in its
// children. Allocates nothing from the heap. Returns how many objects are immortal; none if memory ran out.
std::optional<std::size_t> make_elements_immortal(const SharableTypes& types,
                                                  const LargeContainers& containers) noexcept;

}  // namespace fastload
