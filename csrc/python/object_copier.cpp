#include "python/object_copier.h"

namespace fastload {
namespace {

void do_nothing(PyObject*) {}

void mute(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    const destructor finalizer = type->tp_finalize;
    if (finalizer == nullptr) return;
    // CPython calls the finalizer of an object once. This is that call, and the GIL lets nobody see the exchange.
    type->tp_finalize = &do_nothing;
    PyObject_CallFinalizer(object);
    type->tp_finalize = finalizer;
}

}  // namespace

ObjectCopier::ObjectCopier(ObjectKinds& kinds, PyObject* context, const CopyLimits& limits)
    : kinds_(kinds),
      context_(context),
      limits_(limits),
      empty_tuple_(checked(PyTuple_New(0))),
      finalized_(checked(PyList_New(0))),
      shared_(checked(PyList_New(0))) {
    PyObject* always = kinds.always_shared();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(always); ++i) {
        remember(PyTuple_GET_ITEM(always, i), Ref::borrow(PyTuple_GET_ITEM(always, i)));
    }
}

CopiedObjects ObjectCopier::copy(PyObject* roots) try {
    const Py_ssize_t num_roots = PyTuple_GET_SIZE(roots);
    PyObject* ignored = nullptr;
    for (Py_ssize_t i = 0; i < num_roots; ++i) {
        resolve_fully(PyTuple_GET_ITEM(roots, i), &ignored);
        run_fills();
    }
    // The referents of weak references are copied by now, or they are shared.
    is_final_ = true;
    for (Fill& late : late_fills_) fills_.push_back(std::move(late));
    late_fills_.clear();
    run_fills();
    Ref copies = checked(PyTuple_New(num_roots));
    for (Py_ssize_t i = 0; i < num_roots; ++i) {
        PyObject* copy = nullptr;
        resolve_fully(PyTuple_GET_ITEM(roots, i), &copy);
        PyTuple_SET_ITEM(copies.get(), i, Ref::borrow(copy).release());
        run_fills();
    }
    return {std::move(copies), finalized_, shared_};
} catch (...) {
    end_without_finalizers(finalized_.get());
    throw;
}

ObjectCopier::Outcome ObjectCopier::resolve(PyObject* object, PyObject** copy) {
    *copy = object;
    if (is_plain(object)) return Outcome::kDone;
    if (const auto found = memo_.find(object); found != memo_.end()) {
        if (found->second.state == State::kDone) {
            *copy = found->second.copy.get();
            return Outcome::kDone;
        }
        // Only C code can make a cycle of objects that cannot change.
        if (found->second.state == State::kInProgress) return Outcome::kDone;
        if (!is_final_) return Outcome::kLater;
    }
    return begin(object, copy);
}

ObjectCopier::Outcome ObjectCopier::resolve_fully(PyObject* object, PyObject** copy) {
    const std::size_t depth = waiting_.size();
    Outcome outcome = resolve(object, copy);
    if (outcome == Outcome::kWaiting) {
        run_parts(depth);
        outcome = resolve(object, copy);
    }
    return outcome;
}

ObjectCopier::Outcome ObjectCopier::begin(PyObject* object, PyObject** copy) {
    TypeEntry& entry = kinds_.of(Py_TYPE(object));
    switch (entry.kind) {
        case ObjectKind::kShared:
            if (entry.reason_or_maker) share(object, entry.reason_or_maker.get());
            return Outcome::kDone;
        case ObjectKind::kTuple:
            if (PyTuple_CheckExact(object) && is_plain_or_tuple(object)) return Outcome::kDone;
            return wait_for(entry, object, parts_of(entry, object));
        case ObjectKind::kFrozenSet:
        case ObjectKind::kMethod:
        case ObjectKind::kBuiltinMethod:
            return wait_for(entry, object, parts_of(entry, object));
        case ObjectKind::kWeakRef:
        case ObjectKind::kWeakProxy:
            return begin_weak(entry, object, copy);
        case ObjectKind::kByPython:
            return begin_by_python(entry, object, copy);
        case ObjectKind::kFunction:
            if (!is_changeable_function(object)) return Outcome::kDone;
            break;
        case ObjectKind::kInstance:
            if (is_sentinel(entry, object)) return Outcome::kDone;
            break;
        default:
            break;
    }
    Ref shell = new_shell(entry, object);
    *copy = shell.get();
    add_shell(entry, object, shell);
    return Outcome::kDone;
}

ObjectCopier::Outcome ObjectCopier::begin_weak(TypeEntry& entry, PyObject* weak, PyObject** copy) {
    const Ref referent = Ref::borrow(referent_of(weak));
    const auto found = memo_.find(referent.get());
    const bool is_copied = found != memo_.end() && found->second.state == State::kDone;
    if (is_copied ? found->second.copy.get() == referent.get() : is_final_ || referent.get() == Py_None) {
        remember(weak, Ref::borrow(weak));
        return Outcome::kDone;
    }
    if (!is_copied) {
        memo_[weak] = {Ref::borrow(weak), Ref(), State::kLater};
        *copy = weak;
        return Outcome::kLater;
    }
    return wait_for(entry, weak, parts_of(entry, weak));
}

ObjectCopier::Outcome ObjectCopier::begin_by_python(TypeEntry& entry, PyObject* object, PyObject** copy) {
    const Ref made = checked(PyObject_CallFunctionObjArgs(entry.reason_or_maker.get(), context_, object, nullptr));
    if (!PyTuple_CheckExact(made.get()) || PyTuple_GET_SIZE(made.get()) != 3 ||
        !PyTuple_CheckExact(PyTuple_GET_ITEM(made.get(), 1))) {
        PyErr_Format(PyExc_TypeError, "a maker must return (copy, parts, finish), got %R", made.get());
        throw PythonError();
    }
    PyObject* first = PyTuple_GET_ITEM(made.get(), 0);
    Ref parts = Ref::borrow(PyTuple_GET_ITEM(made.get(), 1));
    Ref finish = Ref::borrow(PyTuple_GET_ITEM(made.get(), 2));
    if (first == Py_None) return wait_for(entry, object, std::move(parts), std::move(finish));
    *copy = first;
    if (first == object) {
        remember(object, Ref::borrow(object));
        return Outcome::kDone;
    }
    add_shell(entry, object, Ref::borrow(first));
    if (finish.get() != Py_None) {
        fills_.push_back({&entry, Ref::borrow(object), Ref::borrow(first), std::move(parts), std::move(finish)});
    }
    return Outcome::kDone;
}

ObjectCopier::Outcome ObjectCopier::wait_for(TypeEntry& entry, PyObject* object, Ref parts, Ref finish) {
    Ref copies = checked(PyTuple_New(PyTuple_GET_SIZE(parts.get())));
    memo_[object] = {Ref::borrow(object), Ref(), State::kInProgress};
    waiting_.push_back({&entry, Ref::borrow(object), std::move(parts), std::move(copies), std::move(finish)});
    return Outcome::kWaiting;
}

void ObjectCopier::run_parts(std::size_t depth) {
    while (waiting_.size() > depth) {
        const std::size_t top = waiting_.size() - 1;
        bool is_waiting = false;
        while (waiting_[top].position < PyTuple_GET_SIZE(waiting_[top].parts.get())) {
            const Py_ssize_t position = waiting_[top].position;
            PyObject* copy = nullptr;
            PyObject* part = PyTuple_GET_ITEM(waiting_[top].parts.get(), position);
            const Outcome outcome = resolve(part, &copy);
            if (outcome == Outcome::kWaiting) {
                is_waiting = true;
                break;
            }
            const bool is_new_key = copy != part && waiting_[top].entry->kind == ObjectKind::kFrozenSet;
            if (outcome == Outcome::kLater || (is_new_key && !is_final_)) waiting_[top].is_later = true;
            PyTuple_SET_ITEM(waiting_[top].copies.get(), position, Ref::borrow(copy).release());
            ++waiting_[top].position;
        }
        if (is_waiting) continue;
        Parts done = std::move(waiting_.back());
        waiting_.pop_back();
        finish_parts(done);
    }
}

void ObjectCopier::finish_parts(Parts& parts) {
    PyObject* source = parts.source.get();
    if (parts.is_later) {
        memo_[source] = {parts.source, Ref(), State::kLater};
        return;
    }
    Ref copy = parts.finish ? checked(PyObject_CallFunctionObjArgs(parts.finish.get(), parts.copies.get(), nullptr))
                            : copy_of_parts(*parts.entry, source, parts.copies.get());
    if (copy.get() == source) {
        remember(source, std::move(copy));
    } else {
        add_shell(*parts.entry, source, copy);
    }
}

void ObjectCopier::run_fills() {
    while (!fills_.empty()) {
        Fill next = std::move(fills_.front());
        fills_.pop_front();
        if (!fill(next)) late_fills_.push_back(std::move(next));
    }
}

bool ObjectCopier::fill(Fill& fill) {
    if (fill.is_of_attributes) return fill_attributes(fill);
    if (fill.finish) return fill_by_python(fill);
    switch (fill.entry->kind) {
        case ObjectKind::kList:
            return fill_list(fill);
        case ObjectKind::kDict:
        case ObjectKind::kOrderedDict:
            return fill_dict(fill);
        case ObjectKind::kSet:
            return fill_set(fill);
        case ObjectKind::kDeque:
            return fill_deque(fill);
        case ObjectKind::kFunction:
        case ObjectKind::kCell:
            return fill_function(fill);
        default:
            return true;
    }
}

PyObject* ObjectCopier::share(PyObject* object, PyObject* reason) {
    const Ref row = checked(PyTuple_Pack(2, object, reason));
    check(PyList_Append(shared_.get(), row.get()));
    return remember(object, Ref::borrow(object));
}

PyObject* ObjectCopier::remember(PyObject* object, Ref copy) {
    Memo& memo = memo_[object];
    memo = {Ref::borrow(object), std::move(copy), State::kDone};
    return memo.copy.get();
}

PyObject* ObjectCopier::add_shell(TypeEntry& entry, PyObject* object, const Ref& copy) try {
    ++num_copied_;
    PyObject* shell = copy.get();
    switch (entry.kind) {
        case ObjectKind::kList:
        case ObjectKind::kDict:
        case ObjectKind::kOrderedDict:
        case ObjectKind::kSet:
        case ObjectKind::kDeque:
        case ObjectKind::kFunction:
        case ObjectKind::kCell:
            fills_.push_back({&entry, Ref::borrow(object), copy, Ref(), Ref()});
            break;
        default:
            break;
    }
    if (entry.has_attributes() && !entry.maker_copies_all && Py_TYPE(shell) == Py_TYPE(object)) {
        fills_.push_back({&entry, Ref::borrow(object), copy, Ref(), Ref(), true});
    }
    if (entry.has_finalizer) {
        Ref weak = Ref::steal(PyWeakref_NewRef(shell, nullptr));
        if (!weak) {
            clear_answer();
            weak = copy;
        }
        check(PyList_Append(finalized_.get(), weak.get()));
    }
    return remember(object, copy);
} catch (...) {
    if (entry.has_finalizer) mute(copy.get());
    throw;
}

bool ObjectCopier::shares_elements(PyObject* container, std::size_t num_elements, std::size_t num_copies) {
    if (num_elements <= limits_.max_elements || num_copied_ + num_copies <= limits_.max_objects) return false;
    const Ref reason = checked(PyUnicode_FromFormat("its %zu elements are shared: there are more than %zu objects",
                                                    num_elements, limits_.max_objects));
    const Ref row = checked(PyTuple_Pack(2, container, reason.get()));
    check(PyList_Append(shared_.get(), row.get()));
    return true;
}

PyObject* ObjectCopier::memo_or_self(PyObject* object) const {
    const auto found = memo_.find(object);
    return found != memo_.end() && found->second.state == State::kDone ? found->second.copy.get() : object;
}

void end_without_finalizers(PyObject* finalized) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(finalized); ++i) {
        PyObject* item = PyList_GET_ITEM(finalized, i);
        const Ref object = Ref::borrow(PyWeakref_CheckRefExact(item) ? referent_of(item) : item);
        mute(object.get());
    }
}

}  // namespace fastload
