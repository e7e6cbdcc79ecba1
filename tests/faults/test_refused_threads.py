"""Iterators that cannot be made: everything begun for them ends, even if the error is kept. Each test in a child."""

from __future__ import annotations

import pytest
from children import RunChild

pytestmark = pytest.mark.alone

PRELUDE = """
    import shutil, tempfile, warnings
    from pathlib import Path
    from held import held_now
    from numbered import Numbered

    warnings.simplefilter("ignore")  # of more threads than processors

    NUM_TASKS = held_now().threads

    def first(make):
        # What is made once in a process is made.
        iterator = iter(make(1, persistent_workers=False))
        assert len(list(iterator)) > 0
        del iterator
        gc.collect()
        assert wait_for(lambda: held_now().threads == NUM_TASKS), [t.name for t in threading.enumerate()]

    kept = []
    def fails(loader, text):
        assert wait_for(lambda: held_now().threads == NUM_TASKS)
        before = held_now()
        try:
            iter(loader)
        except BaseException as error:
            kept.append(error)  # with its frames
            assert text in str(error), error
            assert wait_for(lambda: held_now() == before), (held_now(), before, [t.name for t in threading.enumerate()])
            return True
        return False
"""
LOADERS = {
    "native": "lambda n, **more: make_loader(n, repeats=1, batch_size=2, **more)",
    "partly native": "lambda n, **more: make_python_part_loader(n, repeats=1, batch_size=2, **more)",
    "Python": "lambda n, **more: Threads(Numbered(24), 2, num_workers=n, **more)",
    "worker_init_fn": "lambda n, **more: make_loader(n, repeats=1, batch_size=2, worker_init_fn=print, **more)",
}
IS_PERSISTENT = pytest.mark.parametrize("is_persistent", [False, True])


@IS_PERSISTENT
@pytest.mark.parametrize("kind", [pytest.param("native", marks=pytest.mark.smoke), *list(LOADERS)[1:]])
def test_a_thread_that_cannot_start_leaves_none_of_those_before_it(
    run_loader_child: RunChild, kind: str, is_persistent: bool
) -> None:
    """The k-th start fails, for each k; the next iter() of the same loader, with more of them, works."""
    run_loader_child(
        PRELUDE
        + f"""
    make = {LOADERS[kind]}
    first(make)
    start, num_left = threading.Thread.start, 0
    def counting_start(thread):
        global num_left
        if num_left == 0:
            raise RuntimeError("can't start new thread")
        num_left -= 1
        start(thread)
    threading.Thread.start = counting_start
    for num_workers in (1, 2, 3, 4):
        loader = make(num_workers, persistent_workers={is_persistent})
        number = 0
        while True:
            num_left = number
            if not fails(loader, "Lower num_workers or raise the limit on processes"):
                break
            number += 1
        assert number == num_workers * (2 if {kind == "worker_init_fn"} else 1), number
        num_left = 100
        assert sum(len(batch[0]) for batch in loader) == len(loader.dataset)
        loader.close()
    """
    )


@IS_PERSISTENT
@pytest.mark.parametrize("kind", ["native", "partly native", "Python"])
def test_a_limit_on_threads_is_an_error_until_it_is_raised(
    run_loader_child: RunChild, kind: str, is_persistent: bool
) -> None:
    run_loader_child(
        PRELUDE
        + f"""
    # A user of its own, whom the limit binds: it counts all that this user runs.
    folder = tempfile.mkdtemp()
    os.environ["FASTLOAD_TEST_FOLDER"] = shutil.copytree(os.environ["FASTLOAD_TEST_FOLDER"], folder + "/images")
    for path in [folder, *Path(folder).rglob("*")]:
        os.chmod(path, 0o755)
    make = {LOADERS[kind]}
    first(make)
    if os.getuid() == 0:
        os.setuid(100_000 + os.getpid())
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    for num_workers in (1, 3):
        loader = make(num_workers, persistent_workers={is_persistent})
        number = 0
        while True:
            resource.setrlimit(resource.RLIMIT_NPROC, (NUM_TASKS + number, hard))
            if not fails(loader, "Lower num_workers or raise the limit on processes"):
                break
            number += 1
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
        assert number == num_workers * (2 if {kind == "native"} else 1), number
        assert sum(len(batch[0]) for batch in loader) == len(loader.dataset)
        loader.close()
    """
    )


# Failures in iter(), and the loaders in which they occur.
FAILURES = {
    "sampler": ("more = dict(sampler=Failing())", "native, partly native, Python"),
    "interrupt": ("more = dict(sampler=Failing(KeyboardInterrupt))", "native, partly native, Python"),
    "next of the sampler": ("more = dict(sampler=FailingLater())", "native, partly native, Python"),
    "memory of a batch": ("_batch_memory.HostMemory.place = fail", "native"),
    "plan": ("fastload._loader._iterators.native_plan_of = fail", "native"),
    "its threads": ("_maker.ThreadGroup = fail", "partly native, Python"),
    "first epoch": ("WorkerGroup.restart_order = fail", "partly native, Python"),
}
CASES = [(failure, kind) for failure, (_, kinds) in FAILURES.items() for kind in kinds.split(", ")]


@IS_PERSISTENT
@pytest.mark.parametrize(("failure", "kind"), CASES)
def test_whatever_fails_in_iter_leaves_no_thread(
    run_loader_child: RunChild, failure: str, kind: str, is_persistent: bool
) -> None:
    run_loader_child(
        PRELUDE
        + f"""
    from fastload._delivery import _batch_memory
    from fastload._iteration.python import _maker
    from fastload._iteration.python._worker_group import WorkerGroup

    def fail(*arguments, **more):
        raise ZeroDivisionError("here")

    class Failing:
        def __init__(self, error=ZeroDivisionError):
            self.error = error
        def __len__(self):
            return 4
        def __iter__(self):
            raise self.error("here")

    class FailingLater(Failing):
        def __iter__(self):
            yield from (0, 1)
            fail()

    make, more = {LOADERS[kind]}, {{}}
    first(make)
    {FAILURES[failure][0]}
    loader = make(2, persistent_workers={is_persistent}, **more)
    assert fails(loader, "here")
    assert fails(loader, "here")
    """
    )
