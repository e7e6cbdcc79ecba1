"""Each worker's own objects: copies of all that is reachable from what a loader was given, as a fork would leave them.

Note [own objects]
torch's workers are forked, so that each has the dataset, collate_fn and worker_init_fn for itself, in the state in
which they were when the iterator was made. Threads get copies, with one memo per worker, so that one object stays one.
Objects that cannot be copied are shared.
"""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import numpy as np
import torch

from fastload._native import ObjectKinds, copy_objects, end_without_finalizers
from fastload._workers._kinds import kind_of
from fastload._workers._making import Making
from fastload._workers._memory import SharedMemory


class OwnObjects:
    """One worker's own objects. Leads to nothing but the copies.

    Attributes:
        roots: The copies of the roots.
        generators: random.Random, and NumPy's and torch's generators among the copies, in the order of the walk.
        shared: (object, reason) of each object that all workers share although it could change.
    """

    def __init__(self, roots: tuple[Any, ...], finalized: list[Any], shared: list[tuple[Any, str]], making: Making):
        self.roots = roots
        self.generators = making.generators
        self.shared = shared + making.shared
        self._finalized = finalized
        self._locals = making.locals

    def enter(self) -> None:
        """Gives the worker's thread the content of threading.local objects. Call it there before using the copies."""
        for local, kind, attributes in self._locals:
            vars(local).update(attributes)
            if kind is not threading.local:
                local.__class__ = kind

    def end(self) -> None:
        """Makes __del__ of the copies do nothing, as a process ends without calling it. Call it before they go."""
        end_without_finalizers(self._finalized)
        self.roots = ()
        self.generators = []
        self.shared = []
        self._finalized = []
        self._locals = []


def copies(roots: tuple[Any, ...], num_workers: int) -> list[OwnObjects]:
    """Makes copies for each worker.

    Args:
        roots: The dataset, collate_fn, worker_init_fn.
        num_workers: At least 1.
    """
    kinds = ObjectKinds(kind_of, _always_shared())
    memory = SharedMemory()
    was_enabled = gc.isenabled()
    gc.disable()  # many objects are made here, and none of them is garbage
    made: list[OwnObjects] = []
    try:
        for _ in range(num_workers):
            made.append(_copies_of_one(roots, kinds, memory))
        return made
    except BaseException:
        for own in made:
            own.end()
        raise
    finally:
        if was_enabled:
            gc.enable()


def held_generators(roots: tuple[Any, ...]) -> list[Any]:
    """Returns the random number generators reached from `roots`, in the order of OwnObjects.generators."""
    making = Making(SharedMemory().has)
    made, finalized, _ = copy_objects(ObjectKinds(kind_of, _always_shared()), roots, making)
    end_without_finalizers(finalized)
    del made
    return making.drawing


def _copies_of_one(roots: tuple[Any, ...], kinds: ObjectKinds, memory: SharedMemory) -> OwnObjects:
    making = Making(memory.has)
    made, finalized, shared = copy_objects(kinds, roots, making)
    return OwnObjects(made, finalized, shared, making)


def _always_shared() -> tuple[Any, ...]:
    """Returns the process's generators, which workers have by an exchange, not as copies."""
    numpy_global = np.random.mtrand._rand
    return random._inst, numpy_global, numpy_global._bit_generator, torch.default_generator
