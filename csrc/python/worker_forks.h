// Forks worker processes that share the objects of a data set, whatever they read.
#pragma once

#include <Python.h>

#include "python/ref.h"

namespace fastload {

// Note [maker]
// A read writes the reference count of an object and so copies its page: forked workers end up with a data set each.
// On Python 3.12 and newer nothing writes the count of an immortal object. Therefore the parent forks one process, the
// maker. It makes the objects immortal in its own memory, forks the workers, writes their pids into a page that all
// share, and ends. The parent is the subreaper meanwhile (see prctl), so the workers become its children. The parent's
// own objects are never touched. The maker runs no Python code.
//
// A worker first runs C++ alone: it writes its pid, closes the pipes of the others, and waits for a byte that says go.
// Until then it ends by itself if the parent is gone or closes that channel, and nobody has seen it. Hence any failure
// before that byte leaves no trace.

// Returns why forked workers of this process cannot share objects, as a clause; null if they can.
const char* sharing_obstacle() noexcept;

// Forks `num_workers` processes, all or none. `roots`, a tuple, leads to the data set's objects. Signals are blocked in
// this thread from the first fork on; in the parent until the forks are under way, in a worker still at the return, so
// that it can set its handlers before. The parent waits without the GIL; only its handlers of signals can end that.
//
// Returns, in the parent, a list of (pid, sentinel, lifeline): the descriptor `sentinel` gets an end of file when the
//     worker has ended, and the worker's `parent_sentinel` gets one when `lifeline` is closed. The caller owns both.
// Returns, in a worker, (number, parent_sentinel).
// Returns, in the parent, a str if the maker has failed: the reason, as a clause. No process is left.
// Throws PythonError: OSError if a fork or a descriptor is refused, what an audit hook or a handler of signals raises.
Ref fork_workers(PyObject* roots, int num_workers);

}  // namespace fastload
