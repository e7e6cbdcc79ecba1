"""Life and death of threads that run the user's Python: interrupts, early ends, collection, exit, fork. In children."""

from __future__ import annotations

import pytest
from children import RunChild

pytestmark = pytest.mark.alone


@pytest.mark.parametrize(("num_workers", "prefetch_factor"), [(1, 1), (2, 1), (2, 3)])
def test_an_interrupt_at_any_line_of_next_loses_and_changes_no_batch(
    run_loader_child: RunChild, num_workers: int, prefetch_factor: int
) -> None:
    run_loader_child(
        f"""
        from line_interrupts import interrupt_at_every_line, next_of

        def epoch(interrupt):
            torch.manual_seed(3)
            # No generator, which an interrupt inside of it would end.
            batches = [[number, number + 1] for number in reversed(range({num_workers * prefetch_factor + 2}))]
            options = dict(batch_sampler=batches, prefetch_factor={prefetch_factor})
            iterator, found = iter(make_python_part_loader({num_workers}, with_noise, 2, **options)), []
            while True:
                try:
                    images, _ = next_of(iterator, interrupt)
                except StopIteration:
                    return found
                found.append(images.numpy().tobytes())

        assert interrupt_at_every_line(epoch) == set()
        """,
        timeout=300,
    )


def test_an_epoch_that_is_over_ends_its_threads_unless_they_are_persistent(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        loader, persistent = make_python_part_loader(2), make_python_part_loader(1, persistent_workers=True)
        iterator = iter(loader)
        assert len(list(iterator)) == 240
        assert wait_for(lambda: not python_part_threads())
        assert next(iterator, None) is None
        list(persistent)
        assert len(python_part_threads()) == 1
        list(persistent)
        assert len(python_part_threads()) == 1
        del persistent
        gc.collect()
        assert wait_for(lambda: not python_part_threads())
        """
    )


LEADING_BACK = {
    "collate_fn": "self.of(list(range(80)), collate_fn=self.collate)",
    "collate_fn, persistent": "self.of(list(range(80)), collate_fn=self.collate, persistent_workers=True)",
    "dataset": "self.of(self)",
    "iterable dataset": "self.of(Stream(self))",
    "worker_init_fn": "self.of(list(range(80)), worker_init_fn=self.init)",
    "worker_init_fn that fails": "self.of(list(range(80)), worker_init_fn=self.fail)",
    "transform": "make_python_part_loader(2, self.transform, persistent_workers=True)",
    "context variable": "self.of(list(range(80)), persistent_workers=True)",
}


@pytest.mark.parametrize("is_at_end", [False, True])
@pytest.mark.parametrize("name", LEADING_BACK)
def test_threads_end_with_an_iterator_that_the_users_code_leads_back_to(
    run_loader_child: RunChild, name: str, is_at_end: bool
) -> None:
    run_loader_child(
        f"""
        import contextlib, contextvars, weakref
        from torch.utils.data import IterableDataset

        CURRENT = contextvars.ContextVar("CURRENT")

        class Stream(IterableDataset):
            def __init__(self, trainer):
                self.trainer = trainer
            def __iter__(self):
                for number in range(40):
                    yield number, self

        class Trainer:
            def __init__(self):
                self.loader = {LEADING_BACK[name]}
                token = CURRENT.set(self)
                self.iterator = iter(self.loader)
                CURRENT.reset(token)
            def of(self, dataset, collate_fn=list, **arguments):
                return Threads(dataset, 2, num_workers=2, collate_fn=collate_fn, **arguments)
            def __len__(self):
                return 80
            def __getitem__(self, index):
                return index, self
            def collate(self, samples):
                return samples, self
            def transform(self, image):
                return image + torch.rand(1)
            def init(self, worker_id):
                self.worker_id = worker_id
            def fail(self, worker_id):
                raise ZeroDivisionError(self)

        for _ in range(2):
            trainer = Trainer()
            with contextlib.suppress(ZeroDivisionError, StopIteration):
                while True:
                    next(trainer.iterator)
                    if not {is_at_end}:
                        break
            is_collected = weakref.ref(trainer)
            del trainer
            assert wait_for(lambda: gc.collect() >= 0 and not python_part_threads()), threading.enumerate()
            assert is_collected() is None
        """
    )


def test_close_wakes_a_consumer_that_waits_for_a_batch(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        loader = make_python_part_loader(1, lambda image: time.sleep(3))
        iterator = iter(loader)
        raised = []
        def take():
            try:
                next(iterator)
            except fastload.LoaderClosedError as error:
                raised.append(time.monotonic())
        thread = threading.Thread(target=take)
        thread.start()
        time.sleep(0.2)
        begin = time.monotonic()
        loader.close()
        thread.join()
        assert raised[0] - begin < 0.2
        """
    )


@pytest.mark.parametrize("kept", ["error.with_traceback(None)", "error.__cause__"])
def test_an_exception_that_is_kept_does_not_keep_the_threads(run_loader_child: RunChild, kept: str) -> None:
    run_loader_child(
        f"""
        def fail(image):
            raise ValueError("no")
        def first_error(loader):
            try:
                next(iter(loader))
            except fastload.SampleError as error:
                return {kept}
        kept = first_error(make_python_part_loader(2, fail))
        assert "no" in str(kept)
        gc.collect()
        assert wait_for(lambda: not python_part_threads()), threading.enumerate()
        """
    )


def test_an_iterator_may_be_collected_in_a_thread_of_its_own(run_loader_child: RunChild) -> None:
    """A finalizer that waited for the thread there would wait forever."""
    run_loader_child(
        """
        gc.disable()
        may_collect = threading.Event()
        def collect(image):
            if may_collect.wait(20):
                gc.collect()
            return image
        loader = make_python_part_loader(2, collect)
        iterator = iter(loader)
        cycle = [iterator]
        cycle.append(cycle)
        del iterator, cycle, loader
        may_collect.set()
        assert wait_for(lambda: not python_part_threads())
        """
    )


def test_an_exit_handler_that_iterates_gets_an_error_and_does_not_hang(run_loader_child: RunChild) -> None:
    result = run_loader_child(
        """
        def iterate():
            try:
                while True:
                    next(iterator)
            except fastload.LoaderClosedError:
                print("closed")
        atexit.register(iterate)
        iterator = iter(make_python_part_loader(2, repeats=2000))
        next(iterator)
        """
    )
    assert result.stdout == "closed\n"


@pytest.mark.parametrize("is_in_cycle", [False, True])
def test_dropping_an_iterator_is_quick(run_loader_child: RunChild, is_in_cycle: bool) -> None:
    run_loader_child(
        f"""
        may_end, entered = threading.Event(), []
        def linger(image):
            entered.append(threading.current_thread())
            may_end.wait(20)
            return image
        loader = make_python_part_loader(2, linger)
        gc.collect()
        gc.freeze()  # to look through all that torch holds takes longer than what is measured here
        for number in range(3):
            iterator = iter(loader)
            assert wait_for(lambda: len(entered) == 2 * (number + 1))
            if {is_in_cycle}:
                iterator.me = iterator
            begin = time.monotonic()
            del iterator
            if {is_in_cycle}:
                gc.collect()
            assert time.monotonic() - begin < 0.1
        assert len(python_part_threads()) == 6
        may_end.set()
        assert wait_for(lambda: not python_part_threads())
        """
    )


def test_a_fork_while_threads_count_leaves_the_counters_usable(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        loader = make_python_part_loader(2, repeats=2)
        lock = loader._fastload.workers.counters._lock
        has_lock, may_end = threading.Event(), threading.Event()
        def hold():
            with lock:
                has_lock.set()
                may_end.wait()
        holder = threading.Thread(target=hold)
        holder.start()
        has_lock.wait()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if len(list(loader)) == 24 and loader.stats().samples == 24 else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        may_end.set()
        holder.join()
        assert status == 0
        """
    )
