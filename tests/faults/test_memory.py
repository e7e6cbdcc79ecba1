"""Memory: delivered batches stay, reused memory costs nothing, and threads cost little."""

from __future__ import annotations

import pytest
from children import RunChild

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_cause_no_page_faults_once_warm(run_loader_child: RunChild, num_workers: int) -> None:
    result = run_loader_child(
        f"""
        iterator = iter(make_loader({num_workers}))
        for _ in range(60):
            next(iterator)
        gc.collect()
        gc.disable()
        faults = []
        for _ in range(40):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            next(iterator)
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        print(sorted(faults)[len(faults) // 2], sum(faults))
        """,
        timeout=60,
    )
    median, total = map(int, result.stdout.split())
    assert median == 0
    # Fresh memory for 40 batches of 16 images would fault 94,000 times; single faults come from the interpreter.
    assert total < 200


def test_held_batches_never_change(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        loader = make_loader(2, repeats=8)
        held, sums = [], []
        for images, labels in loader:
            held.append((images, labels))
            sums.append(hashlib.md5(images.numpy().tobytes()).hexdigest())
        view = held[0][0][3, :, 10:20]
        copy = view.clone()
        assert [hashlib.md5(images.numpy().tobytes()).hexdigest() for images, _ in held] == sums
        del held, images
        for _ in range(2):
            list(loader)
        assert torch.equal(view, copy)
        """
    )


def test_a_buffer_comes_back_when_its_last_view_dies(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        iterator = iter(make_loader(0, repeats=16))
        images, _ = next(iterator)
        address, part = images.data_ptr(), images[0]
        del images
        kept = [next(iterator)[0] for _ in range(2)]
        assert address not in {images.data_ptr() for images in kept}
        del part, kept
        assert address in {images.data_ptr() for images in [next(iterator)[0] for _ in range(3)]}
        """
    )


ENLARGED = """
        def enlarged(image):
            return image.repeat(1, 8, 8)  # 0.8 MB, so that batches have memory of their own
"""


@pytest.mark.smoke
def test_batches_that_python_collates_cause_few_page_faults_once_warm(run_loader_child: RunChild) -> None:
    result = run_loader_child(
        f"""{ENLARGED}
        loader = make_python_part_loader(1, enlarged, repeats=80, batch_size=48, persistent_workers=True)
        for _ in loader:
            pass
        gc.collect()
        gc.disable()
        iterator = iter(loader)
        for _ in range(6):
            next(iterator)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(10):
            next(iterator)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        assert 0 < loader.stats().bytes_held < 2**30
        """,
        timeout=60,
    )
    # Fresh memory for 10 batches of 48 images would fault 92,000 times.
    assert int(result.stdout) < 9_000


def test_batches_that_python_collates_never_change_and_their_memory_comes_back(run_loader_child: RunChild) -> None:
    run_loader_child(
        f"""{ENLARGED}
        def views(image):
            return enlarged(image), enlarged(image) + 1

        held, sums = [], []
        for images, labels in make_python_part_loader(2, views, repeats=40, batch_size=16):
            held.append((images, labels))
            sums.append([hashlib.md5(view.numpy().tobytes()).hexdigest() for view in images])
        assert [[hashlib.md5(view.numpy().tobytes()).hexdigest() for view in images] for images, _ in held] == sums
        view = held[0][0][1][3, :, 10:20]
        copy, addresses = view.clone(), {{one.data_ptr() for images, _ in held for one in images}}
        assert len(addresses) == 2 * len(held)
        del held, images
        loader, again = make_python_part_loader(2, enlarged, repeats=40, batch_size=16), []
        for images, _ in loader:
            again.append(images.data_ptr())
            assert loader.stats().bytes_held > 0
            del images
        assert len(set(again)) < 10 < len(again)
        assert torch.equal(view, copy)
        """,
        timeout=60,
    )


def test_eight_threads_cost_little_memory_no_shared_memory_and_no_process(run_loader_child: RunChild) -> None:
    result = run_loader_child(
        """
        def measure(num_workers, prefetch_factor):
            loader = make_loader(num_workers, repeats=40, prefetch_factor=prefetch_factor)
            for images, labels in loader:
                pass
            assert os.listdir("/dev/shm") == shared_memory
            assert open(f"/proc/self/task/{os.getpid()}/children").read() == ""
            del images
            gc.collect()
            mib = resident_mib() - loader.stats().bytes_held / 2**20
            loader.close()
            return mib

        shared_memory = os.listdir("/dev/shm")
        measure(1, 8)
        one = measure(1, 8)
        print(measure(8, 1) - one)
        """,
        timeout=90,
    )
    assert float(result.stdout) < 7 * 8


def test_at_most_prefetch_factor_times_workers_batches_are_in_flight(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        for num_workers, prefetch_factor in ((1, 2), (2, 3), (3, 1)):
            loader = make_loader(num_workers, repeats=20, prefetch_factor=prefetch_factor)
            iterator = iter(loader)
            for _ in range(3):
                next(iterator)
                assert loader.stats().batches_in_flight <= num_workers * prefetch_factor
            assert wait_for(lambda: loader.stats().queue_depth == num_workers * prefetch_factor)
            assert loader.stats().batches_in_flight == num_workers * prefetch_factor
        """
    )


def test_an_idle_loader_uses_no_processor_time(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        loader = make_loader(4, repeats=40, prefetch_factor=1)
        iterator = iter(loader)
        next(iterator)
        assert wait_for(lambda: loader.stats().queue_depth == 4)
        before = time.process_time()
        time.sleep(2)
        assert time.process_time() - before < 0.02
        """
    )
