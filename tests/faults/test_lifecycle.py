"""Life and death of a loader: interrupts, early ends, garbage collection, exit. Each test in a child.

All of it holds for both kinds of loaders: entirely native ones, and ones with threads that run the user's Python.
"""

from __future__ import annotations

import time

import pytest
from children import RunChild

pytestmark = pytest.mark.alone

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])
LOADERS = pytest.mark.parametrize("make", ["make_loader", "make_python_part_loader"])


@WORKERS
@pytest.mark.parametrize(
    "loader",
    [
        "make_loader(num_workers, repeats=2000, batch_size=4, prefetch_factor=prefetch_factor)",
        "make_loader(num_workers, repeats=2000, batch_size=2000, prefetch_factor=prefetch_factor)",
        "make_python_part_loader(num_workers, repeats=2000, batch_size=1, prefetch_factor=prefetch_factor)",
        "make_python_part_loader(num_workers, lambda image: time.sleep(30))",
    ],
)
def test_ctrl_c_is_seen_within_200_ms_and_the_process_ends_within_a_second(
    run_loader_child: RunChild, num_workers: int, loader: str
) -> None:
    """With 2000 images a batch, or a sample that takes 30 s, the interrupt falls into next(); else into a sleep."""
    result = run_loader_child(
        f"""
        num_workers, prefetch_factor = {num_workers}, 1 if {num_workers} else None
        loader = {loader}
        sent = []
        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.5, interrupt).start()
        try:
            for batch in loader:
                time.sleep(10)
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0])
        del loader
        gc.collect()
        print({"sleep" in loader} or wait_for(lambda: num_threads() == 0))
        end = time.monotonic()
        atexit.register(lambda: print(time.monotonic() - end))
        """
    )
    reaction, are_threads_gone, exit_seconds = result.stdout.split()
    assert float(reaction) < 0.2
    assert are_threads_gone == "True"
    assert float(exit_seconds) < 1


@LOADERS
@WORKERS
def test_two_quick_interrupts_end_the_process(run_loader_child: RunChild, num_workers: int, make: str) -> None:
    result = run_loader_child(
        f"""
        def interrupt_twice():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.002)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.5, interrupt_twice).start()
        loader = {make}({num_workers}, repeats=2000)
        while True:
            for batch in loader:
                pass
        """,
        check=False,
    )
    assert result.returncode != 0
    assert "KeyboardInterrupt" in result.stderr


@pytest.mark.smoke
@LOADERS
@WORKERS
def test_an_exception_in_user_code_leaves_the_loader_usable(
    run_loader_child: RunChild, num_workers: int, make: str
) -> None:
    run_loader_child(
        f"""
        loader = {make}({num_workers}, repeats=3)
        try:
            for images, labels in loader:
                raise ValueError("mine")
        except ValueError as error:
            kept = error  # its traceback holds the iterator
        assert sum(len(images) for images, _ in loader) == 36
        del kept
        assert sum(len(images) for images, _ in loader) == 36
        """
    )


@pytest.mark.smoke
@LOADERS
@pytest.mark.parametrize("is_persistent", [False, True])
def test_dropping_the_loader_ends_its_threads(run_loader_child: RunChild, make: str, is_persistent: bool) -> None:
    run_loader_child(
        f"""
        for _ in range(5):
            loader = {make}(2, persistent_workers={is_persistent})
            iterator = iter(loader)
            next(iterator)
            assert num_threads() == 2
            del loader, iterator
            gc.collect()
            assert wait_for(lambda: num_threads() == 0)
        assert wait_for(lambda: not any(t.name.startswith("fastload") for t in threading.enumerate()))
        """
    )


@LOADERS
def test_an_iterator_keeps_a_loader_without_a_name_alive(run_loader_child: RunChild, make: str) -> None:
    run_loader_child(
        f"""
        count = 0
        for images, labels in {make}(2, repeats=3):
            gc.collect()
            count += len(images)
        assert count == 36
        """
    )


@LOADERS
@WORKERS
@pytest.mark.parametrize("is_persistent", [False, True])
def test_close_ends_iterators_with_a_clear_error_and_iter_starts_again(
    run_loader_child: RunChild, num_workers: int, make: str, is_persistent: bool
) -> None:
    run_loader_child(
        f"""
        loader = {make}({num_workers}, repeats=20, persistent_workers={is_persistent} and {num_workers} > 0)
        iterator = iter(loader)
        next(iterator)
        loader.close()
        assert not python_part_threads()  # close() waits for these
        assert wait_for(lambda: num_threads() == 0)
        for _ in range(2):
            try:
                next(iterator)
            except fastload.LoaderClosedError as error:
                assert "closed" in str(error)
            else:
                raise AssertionError("a closed iterator gave a batch")
        loader.close()
        finished = iter(loader)
        assert finished is not iterator
        assert sum(len(images) for images, _ in finished) == 240
        loader.close()
        assert next(finished, None) is None
        """
    )


@LOADERS
@WORKERS
@pytest.mark.parametrize(
    "body",
    [
        "held = iter(loader); next(held)",
        "held = iter(loader); next(held); held.me = held; del held",
        "sys.held = list(itertools.islice(loader, 4))",
        "threading.Thread(target=lambda: list(loader), daemon=True).start(); time.sleep(0.3)",
    ],
)
def test_the_interpreter_exits_within_a_second_and_without_a_word(
    run_loader_child: RunChild, num_workers: int, make: str, body: str
) -> None:
    def exit_seconds(body: str) -> float:
        result = run_loader_child(
            f"""
            loader = {make}({num_workers}, repeats=2000)
            {body}
            print(time.time(), flush=True)
            """
        )
        assert result.stderr == ""
        return time.time() - float(result.stdout)

    limit = exit_seconds("") + 1
    assert any(exit_seconds(body) < limit for _ in range(3))


@pytest.mark.parametrize("is_native", [True, False])
def test_interrupts_in_next_lose_no_sample(run_loader_child: RunChild, is_native: bool) -> None:
    """Without threads an interrupt may come before, during and after the reference decoder's part."""
    run_loader_child(
        f"""
        import shutil
        from pathlib import Path
        from PIL import Image
        from fastload._iteration.native._maker import NativeMaker
        os.environ["FASTLOAD_TEST_FOLDER"] = shutil.copytree(os.environ["FASTLOAD_TEST_FOLDER"], "images")
        for path in Path("images").glob("*/*.JPEG"):
            if not {is_native}:
                Image.open(path).save(path, "PNG")
        loader = make_loader(0, repeats=12, shuffle=True)
        torch.manual_seed(5)
        expected = [images for images, labels in loader]
        def interrupt(number, frame):
            # Only while the batch is in the engine: elsewhere nobody can tell which line of Python was the last.
            if iterator._maker._iteration.batches_in_flight == 1:
                while frame is not None:
                    if frame.f_code is NativeMaker._wait.__code__:
                        raise KeyboardInterrupt
                    frame = frame.f_back
        signal.signal(signal.SIGALRM, interrupt)
        num_interrupts = 0
        while num_interrupts < 5:
            torch.manual_seed(5)
            iterator = iter(loader)
            got = []
            signal.setitimer(signal.ITIMER_REAL, 0.007, 0.007)
            while len(got) < len(expected):
                try:
                    got.append(next(iterator)[0])
                except KeyboardInterrupt:
                    num_interrupts += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))
        """,
        timeout=60,
    )


def test_threads_leave_signals_to_the_interpreter_but_not_their_own_faults(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        from pathlib import Path
        iterator = iter(make_loader(1))
        next(iterator)
        [status] = [
            (task / "status").read_text()
            for task in Path("/proc/self/task").iterdir()
            if (task / "comm").read_text().startswith("fastload-w")
        ]
        blocked = int(status.split("SigBlk:")[1].split()[0], 16)
        def is_blocked(number):
            return bool(blocked >> (number - 1) & 1)
        assert all(map(is_blocked, [signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGPROF]))
        assert not any(map(is_blocked, [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL]))
        """
    )


@pytest.mark.parametrize("is_in_cycle", [False, True])
def test_dropping_an_iterator_is_quick(run_loader_child: RunChild, is_in_cycle: bool) -> None:
    run_loader_child(
        f"""
        loader = make_loader(2)
        next(iter(loader))
        gc.collect()
        gc.freeze()  # to look through all that torch holds takes longer than what is measured here
        for _ in range(3):
            iterator = iter(loader)
            next(iterator)
            if {is_in_cycle}:
                iterator.me = iterator
            begin = time.monotonic()
            del iterator
            if {is_in_cycle}:
                gc.collect()
            assert time.monotonic() - begin < 0.1
        assert num_native_threads() == 2
        assert wait_for(lambda: loader.stats().batches_in_flight == 0)
        assert next(iter(loader))[0].shape[0] == 16
        """
    )


def test_close_wakes_a_consumer_in_another_thread(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        loader = make_loader(1)
        errors = []
        def consume():
            try:
                for batch in loader:
                    pass
            except fastload.LoaderClosedError as error:
                errors.append(error)
        thread = threading.Thread(target=consume)
        thread.start()
        assert wait_for(lambda: loader.stats().batches_delivered > 0)
        loader.close()
        thread.join(1)
        assert not thread.is_alive() and errors
        """
    )
