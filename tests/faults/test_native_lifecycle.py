"""Life and death of an entirely native loader: interrupts, early ends, signals. Each test in a child."""

from __future__ import annotations

import pytest
from children import RunChild

pytestmark = pytest.mark.alone


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
