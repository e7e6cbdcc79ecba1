"""Life and death of threads that run the user's Python: interrupts, early ends, collection, exit, fork. In children."""

from __future__ import annotations

import time

import pytest
from children import RunChild

PRELUDE = """
import threading
from tail_loader import TailLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

def tail_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("fastload-tail")]

def make_tail_loader(num_workers, function=lambda image: image + torch.randn(3, 1, 1), repeats=20, **arguments):
    steps = [transforms.RandomResizedCrop(32), transforms.ToTensor(), function]
    dataset = ImageFolder(os.environ["FASTLOAD_TEST_FOLDER"], transforms.Compose(steps))
    dataset.samples = dataset.samples * repeats
    return TailLoader(dataset, 2, num_workers=num_workers, **arguments)

def bytes_of(batches):
    return [images.numpy().tobytes() for images, _ in batches]
"""


@pytest.fixture
def run_tail_child(run_loader_child: RunChild) -> RunChild:
    def run(code: str, **arguments: object) -> object:
        # The prelude of run_loader_child comes first; both are written without indentation.
        import textwrap

        return run_loader_child(PRELUDE + textwrap.dedent(code), **arguments)

    return run  # type: ignore[return-value]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_ctrl_c_in_next_is_seen_within_200_ms_and_the_process_ends_soon(
    run_tail_child: RunChild, num_workers: int
) -> None:
    result = run_tail_child(
        f"""
        loader = make_tail_loader({num_workers}, lambda image: time.sleep(30))
        sent = []
        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.5, interrupt).start()
        try:
            next(iter(loader))
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0])
        end = time.monotonic()
        atexit.register(lambda: print(time.monotonic() - end))
        """
    )
    reaction, exit_seconds = map(float, result.stdout.split())
    assert reaction < 0.2
    assert exit_seconds < 1


@pytest.mark.parametrize("num_workers", [1, 2])
def test_interrupts_in_next_lose_no_batch(run_tail_child: RunChild, num_workers: int) -> None:
    run_tail_child(
        f"""
        def slow(image):
            time.sleep(0.002)
            return image + torch.randn(3, 1, 1)

        def epoch(is_disturbed):
            torch.manual_seed(3)
            iterator = iter(make_tail_loader({num_workers}, slow, 8, batch_size=4, shuffle=True))
            found, interrupts = [], 0
            while True:
                try:
                    if is_disturbed:
                        signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0005 * (interrupts % 7))
                    images, _ = next(iterator)
                except InterruptedError:
                    interrupts += 1
                    continue
                except StopIteration:
                    return found, interrupts
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                found.append(images.numpy().tobytes())

        def interrupt(*_):
            raise InterruptedError

        expected, _ = epoch(False)
        signal.signal(signal.SIGALRM, interrupt)
        while True:
            try:
                found, interrupts = epoch(True)
                break
            except InterruptedError:  # outside of next()
                continue
        assert interrupts > 20, interrupts
        assert len(found) >= len(expected) - 2, (len(found), len(expected))
        positions = [expected.index(batch) for batch in found]
        assert positions == sorted(positions)
        """,
        timeout=60,
    )


def test_an_iterator_that_is_dropped_ends_its_threads(run_tail_child: RunChild) -> None:
    run_tail_child(
        """
        loader = make_tail_loader(2)
        iterator = iter(loader)
        next(iterator)
        assert len(tail_threads()) == 2
        del iterator
        assert wait_for(lambda: not tail_threads())
        for _ in loader:
            break
        assert wait_for(lambda: not tail_threads())
        """
    )


def test_an_epoch_that_is_over_ends_its_threads_unless_they_are_persistent(run_tail_child: RunChild) -> None:
    run_tail_child(
        """
        loader, persistent = make_tail_loader(2), make_tail_loader(1, persistent_workers=True)
        iterator = iter(loader)
        assert len(list(iterator)) == 240
        assert wait_for(lambda: not tail_threads())
        assert next(iterator, None) is None
        list(persistent)
        assert len(tail_threads()) == 1
        list(persistent)
        assert len(tail_threads()) == 1
        del persistent
        gc.collect()
        assert wait_for(lambda: not tail_threads())
        """
    )


def test_close_waits_for_the_threads(run_tail_child: RunChild) -> None:
    run_tail_child(
        """
        loader = make_tail_loader(2)
        iterator = iter(loader)
        next(iterator)
        loader.close()
        assert not tail_threads()
        try:
            next(iterator)
        except fastload.LoaderClosedError:
            loader.close()
            assert len(list(loader)) == 240
        """
    )


def test_close_wakes_who_waits_for_a_batch(run_tail_child: RunChild) -> None:
    run_tail_child(
        """
        loader = make_tail_loader(1, lambda image: time.sleep(3))
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
def test_an_exception_that_is_kept_does_not_keep_the_threads(run_tail_child: RunChild, kept: str) -> None:
    run_tail_child(
        f"""
        def fail(image):
            raise ValueError("no")
        def first_error(loader):
            try:
                next(iter(loader))
            except fastload.SampleError as error:
                return {kept}
        kept = first_error(make_tail_loader(2, fail))
        assert "no" in str(kept)
        gc.collect()
        assert wait_for(lambda: not tail_threads()), threading.enumerate()
        """
    )


def test_an_iterator_may_be_collected_in_a_thread_of_its_own(run_tail_child: RunChild) -> None:
    """A finalizer that waited there for the thread would wait for ever."""
    run_tail_child(
        """
        gc.disable()
        may_collect = threading.Event()
        def collect(image):
            if may_collect.wait(20):
                gc.collect()
            return image
        loader = make_tail_loader(2, collect)
        iterator = iter(loader)
        cycle = [iterator]
        cycle.append(cycle)
        del iterator, cycle, loader
        may_collect.set()
        assert wait_for(lambda: not tail_threads())
        """
    )


@pytest.mark.parametrize(
    "where", ["thread = None", "thread = threading.Thread(target=take, daemon=True); thread.start()"]
)
def test_the_process_ends_quietly_while_batches_are_made(run_tail_child: RunChild, where: str) -> None:
    begin = time.monotonic()
    result = run_tail_child(
        f"""
        loader = make_tail_loader(2, repeats=2000, batch_size=4)
        iterator = iter(loader)
        def take():
            for _ in iterator:
                pass
        {where}
        next(iterator)
        time.sleep(0.3)
        """
    )
    assert result.stderr == ""
    assert time.monotonic() - begin < 15


def test_an_exit_handler_that_iterates_gets_an_error_and_does_not_hang(run_tail_child: RunChild) -> None:
    result = run_tail_child(
        """
        def iterate():
            try:
                while True:
                    next(iterator)
            except fastload.LoaderClosedError:
                print("closed")
        atexit.register(iterate)
        iterator = iter(make_tail_loader(2, repeats=2000))
        next(iterator)
        """
    )
    assert result.stdout == "closed\n"


def test_a_child_process_cannot_use_the_iterator_but_one_of_its_own(run_tail_child: RunChild) -> None:
    run_tail_child(
        """
        loader = make_tail_loader(2, batch_size=8)
        iterator = iter(loader)
        first = next(iterator)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                next(iterator)
            except fastload._errors.ForkedProcessError:
                del iterator
                gc.collect()
                loader.close()
                status = 0 if len(list(loader)) == 30 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert len(list(iterator)) == 29
        """,
        timeout=40,
    )


def test_memory_does_not_grow_from_epoch_to_epoch(run_tail_child: RunChild) -> None:
    run_tail_child(
        """
        loader = make_tail_loader(2, repeats=10, batch_size=8)
        for _ in range(4):
            list(loader)
        before = resident_mib()
        for _ in range(12):
            list(loader)
        assert resident_mib() - before < 40, resident_mib() - before
        """,
        timeout=60,
    )
