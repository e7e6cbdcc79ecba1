"""All programs, by the kind of thing that a worker has for itself.

Each is a function that makes a dataset with its transforms, collate_fn and worker_init_fn. The measure is torch's
loader with forked workers: a program is here only where two runs of that are equal.
"""

from __future__ import annotations

from class_programs import CLASSES
from draw_programs import COLLATION, DRAWS
from epoch_programs import EPOCHS, STREAMS
from generator_programs import GENERATORS
from memory_programs import MEMORY
from package_programs import PACKAGES
from program import Program
from state_programs import STATE

CHAPTERS: dict[str, dict[str, Program]] = {
    "generators": GENERATORS,
    "state": STATE,
    "classes": CLASSES,
    "memory": MEMORY,
    "epochs": {**EPOCHS, **STREAMS},
    "draws": {**DRAWS, **COLLATION},
    "packages": PACKAGES,
}
# The chapters of programs that keep nothing between samples, so that threads may share their objects.
OF_THREADS = ("draws",)
PROGRAMS = {name: program for chapter in CHAPTERS.values() for name, program in chapter.items()}

# Programs that are not as with torch's persistent workers, with the reason, which docs/dataloader-contract.md has, too.
DEVIATIONS_OF_PERSISTENT = {
    "an_init_function_that_raises": "the error of worker_init_fn is told in every epoch, by torch in one"
}

# `make test` runs one in so many programs of a chapter, since only places and functions differ in some chapters.
_EVERY = {"generators": 2, "state": 1, "classes": 1, "memory": 1, "epochs": 1, "draws": 6, "packages": 1}


def chosen(chapter: str) -> list[Program]:
    """Returns the programs of a chapter that `make test` runs."""
    return [*CHAPTERS[chapter].values()][:: _EVERY[chapter]]
