"""Life and death of a loader: interrupts, early ends, garbage collection, exit, fork. Each test in a child."""

from __future__ import annotations

import time

import pytest
from children import RunChild

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


@WORKERS
@pytest.mark.parametrize("batch_size", [4, 2000])
def test_ctrl_c_is_seen_within_200_ms_and_the_process_ends_within_a_second(
    run_loader_child: RunChild, num_workers: int, batch_size: int
) -> None:
    """With 2000 images a batch the interrupt falls into next(); with 4, into the user's sleep."""
    result = run_loader_child(
        f"""
        prefetch_factor = 1 if {num_workers} else None
        loader = make_loader({num_workers}, 2000, {batch_size}, prefetch_factor=prefetch_factor)
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
        print(wait_for(lambda: num_native_threads() == 0))
        end = time.monotonic()
        atexit.register(lambda: print(time.monotonic() - end))
        """
    )
    reaction, are_threads_gone, exit_seconds = result.stdout.split()
    assert float(reaction) < 0.2
    assert are_threads_gone == "True"
    assert float(exit_seconds) < 1


@pytest.mark.parametrize("is_native", [True, False])
def test_interrupts_in_next_lose_no_sample(run_loader_child: RunChild, is_native: bool) -> None:
    """Without threads an interrupt may fall before, into and after the reference decoder's part."""
    run_loader_child(
        f"""
        import shutil
        from pathlib import Path
        from PIL import Image
        from fastload import _iterator
        os.environ["FASTLOAD_TEST_FOLDER"] = shutil.copytree(os.environ["FASTLOAD_TEST_FOLDER"], "images")
        for path in Path("images").glob("*/*.JPEG"):
            if not {is_native}:
                Image.open(path).save(path, "PNG")
        loader = make_loader(0, repeats=12, shuffle=True)
        torch.manual_seed(5)
        expected = [images for images, labels in loader]
        def interrupt(number, frame):
            # Only while the batch is in the engine: elsewhere nobody can tell which line of Python was the last.
            if iterator._stream.batches_in_flight == 1:
                while frame is not None:
                    if frame.f_code is _iterator.NativeIterator._wait.__code__:
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


@WORKERS
def test_two_quick_interrupts_end_the_process(run_loader_child: RunChild, num_workers: int) -> None:
    result = run_loader_child(
        f"""
        def interrupt_twice():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.002)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.5, interrupt_twice).start()
        loader = make_loader({num_workers})
        while True:
            for batch in loader:
                pass
        """,
        check=False,
    )
    assert result.returncode != 0
    assert "KeyboardInterrupt" in result.stderr


@WORKERS
def test_an_exception_in_user_code_leaves_the_loader_usable(run_loader_child: RunChild, num_workers: int) -> None:
    run_loader_child(
        f"""
        loader = make_loader({num_workers}, repeats=3)
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


@pytest.mark.slow
def test_a_thousand_drops_leave_threads_and_memory_flat(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        loader = make_loader(2, repeats=2)
        def drop(count):
            for _ in range(count):
                iterator = iter(loader)
                next(iterator)
                del iterator
        drop(100)
        before, threads = resident_mib(), len(os.listdir("/proc/self/task"))
        drop(1000)
        assert len(os.listdir("/proc/self/task")) == threads
        assert resident_mib() - before < 16, (before, resident_mib())
        """,
        timeout=180,
    )


def test_dropping_the_loader_ends_its_threads(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        for _ in range(5):
            loader = make_loader(2)
            next(iter(loader))
            assert num_native_threads() == 2
            del loader
            gc.collect()
            assert wait_for(lambda: num_native_threads() == 0)
        assert wait_for(lambda: not any(t.name.startswith("fastload") for t in threading.enumerate()))
        """
    )


def test_an_iterator_keeps_a_loader_without_a_name_alive(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        count = 0
        for images, labels in make_loader(2, repeats=3):
            gc.collect()
            count += len(images)
        assert count == 36
        """
    )


@WORKERS
def test_close_ends_iterators_with_a_clear_error_and_iter_starts_again(
    run_loader_child: RunChild, num_workers: int
) -> None:
    run_loader_child(
        f"""
        loader = make_loader({num_workers})
        iterator = iter(loader)
        next(iterator)
        begin = time.monotonic()
        loader.close()
        assert time.monotonic() - begin < 0.5
        assert wait_for(lambda: num_native_threads() == 0, seconds=0.5)
        try:
            while True:
                next(iterator)
        except fastload.LoaderClosedError as error:
            assert "closed" in str(error)
        loader.close()
        assert next(iter(loader))[0].shape[0] == 16
        finished = iter(loader)
        list(finished)
        loader.close()
        assert next(finished, None) is None
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


def test_two_threads_share_an_iterator_each_batch_once(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        iterator = iter(make_loader(2, repeats=20))
        counts = []
        def consume():
            counts.append(sum(len(images) for images, _ in iterator))
        threads = [threading.Thread(target=consume) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join(15) for thread in threads]
        assert sum(counts) == 240 and len(counts) == 2, counts
        """
    )


@WORKERS
@pytest.mark.parametrize(
    ("body", "ending", "status"),
    [
        ("held = iter(loader); next(held)", "", 0),
        ("held = iter(loader); next(held); held.me = held; del held", "", 0),
        ("sys.held = list(make_loader(2, repeats=4))", "", 0),
        ("next(iter(loader))", "sys.exit(7)", 7),
        ("next(iter(loader))", "os._exit(3)", 3),
        ("threading.Thread(target=lambda: list(loader), daemon=True).start(); time.sleep(0.3)", "", 0),
    ],
)
def test_the_interpreter_exits_within_a_second_and_without_a_word(
    run_loader_child: RunChild, num_workers: int, body: str, ending: str, status: int
) -> None:
    def exit_seconds(body: str) -> float:
        result = run_loader_child(
            f"""
            loader = make_loader({num_workers}, repeats=2000)
            {body}
            print(time.time(), flush=True)
            {ending}
            """,
            check=False,
        )
        assert result.stderr == ""
        assert result.returncode == status
        return time.time() - float(result.stdout)

    limit = exit_seconds("") + 1
    assert any(exit_seconds(body) < limit for _ in range(3))


@WORKERS
def test_a_forked_child_is_refused_at_once_and_the_parent_goes_on(run_loader_child: RunChild, num_workers: int) -> None:
    result = run_loader_child(
        f"""
        loader = make_loader({num_workers}, repeats=4)
        iterator = iter(loader)
        held = next(iterator)
        pid = os.fork()
        if pid == 0:
            begin = time.monotonic()
            try:
                next(iterator)
            except RuntimeError as error:
                assert "another process" in str(error), error
            else:
                os._exit(1)
            loader.close()
            del iterator, loader, held
            gc.collect()
            os._exit(0 if time.monotonic() - begin < 1 else 2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert sum(len(images) for images, _ in iterator) == 48 - 16
        pid = os.fork()
        if pid == 0:
            sys.exit(0)  # the ordinary way out, with all finalizers
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert sum(len(images) for images, _ in loader) == 48
        """
    )
    assert result.stderr == ""


def test_a_thread_the_system_refuses_is_an_error_and_close_returns(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        import warnings
        warnings.simplefilter("ignore")
        loader = make_loader(200)
        next(iter(make_loader(0)))
        if os.getuid() == 0:
            os.setuid(65534)  # the limit does not bind root
        resource.setrlimit(resource.RLIMIT_NPROC, (20, 20))
        try:
            iter(loader)
        except RuntimeError as error:
            assert "thread" in str(error), error
        else:
            raise AssertionError("200 threads were allowed")
        loader.close()
        assert wait_for(lambda: num_native_threads() == 0)
        """
    )
