"""Calls of the device that fail at any place, interrupts at any line, forks and exits during copies."""

from __future__ import annotations

import gc
import itertools
import operator
import re
import signal
import threading
from typing import Any

import pytest
import torch
from children import RunChild
from devices import Fake, assert_same, bits, host_batches, loader_on, outcomes, played, read_all, values
from torch.utils.data import TensorDataset
from torchvision.datasets import ImageFolder

import fastload
from fastload._delivery._device import Device

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])
CALLS = [
    *("cudaSetDevice", "cudaThreadExchangeStreamCaptureMode", "cudaEventCreateWithFlags"),
    *("cudaMemcpyAsync", "cudaEventRecord", "cudaEventQuery"),
]
LAUNCH_FAILED = 719


@WORKERS
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_once_costs_one_batch_at_most(
    still_images: ImageFolder, num_workers: int, call: str, n: int
) -> None:
    arguments = {"batch_size": 2, "num_workers": num_workers}
    expected = host_batches(still_images, **arguments)
    found, errors = [], []
    with played(n) as device:
        device.handle.gpu.fail_call(call, n, LAUNCH_FAILED)
        torch.manual_seed(3)
        try:
            iterator = iter(fastload.DataLoader(still_images, device=device.handle, **arguments))
        except RuntimeError:
            return
        for outcome in itertools.islice(outcomes(iterator, RuntimeError), 4 * len(expected)):
            if isinstance(outcome, RuntimeError):
                errors.append(outcome)
            else:
                found.append(read_all(device, outcome))
        batches = values(device, found)
    assert len(errors) <= 1
    assert len(batches) >= len(expected) - len(errors)
    right = [bits(images) + bits(labels) for images, labels in expected]
    found_bits = [bits(images) + bits(labels) for images, labels in batches]
    assert [batch for batch in right if batch in found_bits] == found_bits
    if call == "cudaMemcpyAsync":
        assert isinstance(errors[0], fastload.DeviceError)


@WORKERS
@pytest.mark.parametrize("is_sticky", [False, True])
def test_an_error_names_batch_bytes_stream_and_what_to_do(
    still_images: ImageFolder, num_workers: int, is_sticky: bool
) -> None:
    num_bytes = 4 * (3 * 32 * 32 + 8)
    arguments = {"batch_size": 4, "num_workers": num_workers}
    expected = host_batches(still_images, **arguments)
    ahead = {"device_prefetch": 1} if num_workers else {}  # so that copies are queued in the order of the batches
    with played(1) as device:
        device.handle.gpu.fail_call("cudaMemcpyAsync", 3, LAUNCH_FAILED, is_sticky)  # the first of the second batch
        iterator = iter(fastload.DataLoader(still_images, device=device.handle, **arguments, **ahead))
        first = None
        try:
            first = read_all(device, next(iterator))
        except RuntimeError:
            assert is_sticky  # a copy ahead has broken the device for all that comes
        with pytest.raises(fastload.DeviceError) as raised:
            next(iterator)
        where = f"to {device.handle.name} on stream {device.handle.copy_stream:#x}"
        what = f"batch 1 ({num_bytes} bytes) could not be copied {where}: cudaMemcpyAsync returned "
        assert str(raised.value).startswith(what)
        assert "719" in str(raised.value)
        assert str(raised.value).endswith("start a new one")
        if not is_sticky:
            reads = [first, *(read_all(device, batch) for batch in iterator)]
            assert_same(expected[:1] + expected[2:], values(device, reads))


def dataset_of(kind: str, images: ImageFolder) -> Any:
    """Returns a data set of 14 samples, loaded as `kind` says."""
    return images if kind == "native" else TensorDataset(torch.arange(42.0).view(14, 3), torch.arange(14))


@WORKERS
@pytest.mark.parametrize(
    ("kind", "call"), [("native", "cudaMemcpyAsync"), ("native", "cudaEventRecord"), ("Python", "cudaEventRecord")]
)
def test_a_device_that_is_broken_gives_errors_with_their_batch_and_no_hang(
    still_images: ImageFolder, num_workers: int, kind: str, call: str
) -> None:
    dataset = dataset_of(kind, still_images)
    with played(1) as device:
        ahead = {"device_prefetch": 2} if num_workers else {}
        loader = fastload.DataLoader(dataset, batch_size=1, num_workers=num_workers, device=device.handle, **ahead)
        iterator = iter(loader)
        next(iterator)
        device.handle.gpu.fail_call(call, 1, LAUNCH_FAILED, is_sticky=True)
        found = itertools.islice(outcomes(iterator, RuntimeError), 20)
        errors = [error for error in found if isinstance(error, RuntimeError)]
    assert len(errors) > 5
    causes = r"(cuda\w+ returned cudaErrorLaunchFailure \(|CUDA error: unspecified launch failure\.)"
    where = f"to {device.handle.name} on stream {device.handle.copy_stream:#x}: {causes}"
    for error in errors:
        assert isinstance(error, fastload.DeviceError)
        assert re.search(where, str(error))
        assert re.match(
            r"(batch \d+ \(\d+ bytes\) could not be|the next batch waits for a slot of \d+ bytes)", str(error)
        )
    numbers = [int(number) for number in re.findall(r"batch (\d+) \(", "\n".join(map(str, errors)))]
    assert numbers == sorted(set(numbers))
    assert numbers[0] in (1, 2, 3)  # two may have been copied ahead


@WORKERS
@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        ("native", "empty"),
        ("native", "convert"),
        ("native", "recorded_event"),
        ("Python", "cuda.memory.empty"),
        ("Python", "copy"),
        ("Python", "recorded_event"),
    ],
)
def test_errors_of_torchs_own_calls_name_the_batch_and_a_full_memory_stays_torchs(
    monkeypatch: pytest.MonkeyPatch,
    by_hand: Fake,
    still_images: ImageFolder,
    num_workers: int,
    kind: str,
    broken: str,
) -> None:
    device = by_hand.handle
    ahead = {"device_prefetch": 1} if num_workers else {}
    dataset = dataset_of(kind, still_images)
    loader = fastload.DataLoader(dataset, batch_size=2, num_workers=num_workers, device=device, **ahead)
    for problem, expected in [
        (RuntimeError("CUDA error: unspecified launch failure\nwith advice"), fastload.DeviceError),
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
        (RuntimeError("shape is invalid"), RuntimeError),
    ]:
        iterator = iter(loader)
        for _ in range(2):
            next(iterator)
        by_hand.synchronize()

        def fail(*_: Any, problem: Exception = problem, **__: Any) -> None:
            raise problem

        with monkeypatch.context() as patch:
            owner, _, name = broken.rpartition(".")
            patch.setattr(operator.attrgetter(owner)(device) if owner else device, name, fail)
            with pytest.raises(RuntimeError) as raised:
                list(iterator)
        assert type(raised.value) is expected
        if expected is fastload.DeviceError:
            assert re.match(r"batch [2-4] \(\d{2,} bytes\) could not be moved to cuda:\d+ on stream", str(raised.value))
            assert "CUDA error: unspecified launch failure. The cause may be" in str(raised.value)
            assert raised.value.__cause__ is problem


def test_what_torch_says_of_a_broken_gpu_is_known() -> None:
    gpu = object.__new__(Device)
    assert gpu.is_failure(RuntimeError("CUDA error: unspecified launch failure"))
    assert gpu.is_failure(RuntimeError("CUDA driver error: invalid argument"))
    assert not gpu.is_failure(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert not gpu.is_failure(RuntimeError("expected a CUDA error"))


@pytest.mark.gpu
@WORKERS
def test_a_gpu_that_a_kernel_has_broken_is_told_with_the_batch(run_device_child: RunChild, num_workers: int) -> None:
    run_device_child(
        f"""
        iterator = iter(fastload.DataLoader(images, batch_size=1, num_workers={num_workers}, device="cuda"))
        next(iterator)
        torch.zeros(2, device="cuda")[torch.tensor([9], device="cuda")]
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            pass
        else:
            raise AssertionError("the kernel was to fail")
        errors = []
        for _ in range(3):
            try:
                next(iterator)
            except RuntimeError as error:
                errors.append(error)
        assert errors
        assert {{type(error) for error in errors}} == {{fastload.DeviceError}}, errors
        assert all("start a new one" in str(error) for error in errors), errors
        """,
        timeout=60,
    )


@WORKERS
def test_slots_whose_events_cannot_be_recorded_come_back(still_images: ImageFolder, num_workers: int) -> None:
    """More often than there are slots."""
    still_images.samples = still_images.samples * 2
    with played(1) as device:
        loader = fastload.DataLoader(still_images, batch_size=1, num_workers=num_workers, device=device.handle)
        ended = threading.Event()

        def consume() -> None:
            device.handle.gpu.fail_call("cudaEventRecord", 1, LAUNCH_FAILED)
            for _ in outcomes(loader, RuntimeError):
                device.handle.gpu.fail_call("cudaEventRecord", 1, LAUNCH_FAILED)
            ended.set()

        threading.Thread(target=consume, daemon=True).start()
        assert ended.wait(20)


def test_memory_that_cannot_be_had_for_a_batch_ahead_does_not_cost_the_batch_at_hand(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, still_images: ImageFolder
) -> None:
    expected = host_batches(still_images, batch_size=5, num_workers=1)
    iterator = iter(fastload.DataLoader(still_images, batch_size=5, num_workers=1, device=by_hand.handle))
    empty = by_hand.handle.empty
    num_left = 1

    def full(*shape: int, **options: Any) -> torch.Tensor:
        nonlocal num_left
        if options["dtype"] is torch.uint8 and num_left > 0:
            num_left -= 1
            raise torch.OutOfMemoryError("CUDA out of memory")
        return empty(*shape, **options)

    monkeypatch.setattr(by_hand.handle, "empty", full)
    reads = [read_all(by_hand, batch) for batch in iterator]
    assert num_left == 0
    assert_same(expected, values(by_hand, reads))


PRELUDE = """
import gc, os, sys, threading, time
import torch
import recipes
from devices import Cuda, Fake, Played, assert_same, bits, host_batches, read_all, values
from torchvision.datasets import ImageFolder
import fastload
images = ImageFolder(os.environ["FASTLOAD_TEST_FOLDER"], recipes.evaluation(40, 32))
"""


@pytest.fixture
def run_device_child(run_child: RunChild, clean_folder: Any) -> RunChild:
    """Returns run_child with a dataset and the devices defined."""
    import textwrap
    from pathlib import Path

    def run(code: str, **arguments: Any) -> Any:
        variables = {"FASTLOAD_TEST_FOLDER": str(clean_folder)}
        path = f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n"
        return run_child(path + PRELUDE + textwrap.dedent(code), env=variables, warm=True, **arguments)

    return run


@pytest.mark.parametrize("device", ["Fake()", "Played(1)", pytest.param("Cuda()", marks=pytest.mark.gpu)])
def test_an_exit_with_copies_in_flight_is_silent(run_device_child: RunChild, device: str) -> None:
    result = run_device_child(
        f"""
        device = {device}
        kept = []
        for num_workers in (0, 2):
            loader = fastload.DataLoader(images, batch_size=2, num_workers=num_workers, device=device.handle)
            iterator = iter(loader)
            kept += [loader, iterator, next(iterator), next(iterator)]
        reads = read_all(device, kept[2:4])
        """,
        timeout=60,
    )
    assert result.stderr == ""


@WORKERS
def test_a_forked_child_may_drop_what_it_inherits_and_make_loaders_of_its_own(
    run_device_child: RunChild, num_workers: int
) -> None:
    result = run_device_child(
        f"""
        device = Fake()
        loader = fastload.DataLoader(images, batch_size=2, num_workers={num_workers}, device=device.handle)
        iterator = iter(loader)
        first = next(iterator)
        read = read_all(device, first)
        import warnings

        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, at each fork() beside threads
        pid = os.fork()
        if pid == 0:
            try:
                next(iterator)
            except fastload.ForkedProcessError:
                pass
            else:
                os._exit(3)
            del iterator, loader, first
            gc.collect()
            other = Fake()
            batch = next(iter(fastload.DataLoader(images, batch_size=2, device=other.handle)))
            found = read_all(other, batch)
            other.synchronize()
            same = bits(found()[0]) == bits(host_batches(images, batch_size=2)[0][0])
            os._exit(0 if same else 4)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        rest = [read] + [read_all(device, next(iterator))]
        assert_same(host_batches(images, batch_size=2)[:2], values(device, rest))
        """
    )
    assert result.stderr == ""


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_interrupt_at_any_line_of_next_loses_and_changes_no_batch(
    run_device_child: RunChild, num_workers: int
) -> None:
    run_device_child(
        f"""
        from line_interrupts import interrupt_at_every_line, next_of

        dataset = torch.utils.data.TensorDataset(torch.arange(42.0).view(14, 3), torch.arange(14))

        def epoch(interrupt):
            device, found = Fake(), []
            # No generator, which an interrupt inside of it would end.
            batches = [list(range(first, first + 4)) for first in (8, 4, 0)]
            loader = fastload.DataLoader(
                dataset, batch_sampler=batches, num_workers={num_workers}, prefetch_factor={2 if num_workers else None},
                workers="threads", device=device.handle, device_prefetch=1 if {num_workers} else None,
            )
            iterator = iter(loader)
            while True:
                try:
                    batch = next_of(iterator, interrupt)
                except StopIteration:
                    return [bits(one) + bits(labels) for one, labels in (read() for read in found)]
                found.append(read_all(device, batch))
                del batch
                device.synchronize()

        assert interrupt_at_every_line(epoch) == set()
        """,
        timeout=100,
    )


@WORKERS
@pytest.mark.parametrize("kind", ["images", "tensors"])
def test_an_interrupt_at_any_line_of_a_drop_reaches_the_program(
    run_device_child: RunChild, kind: str, num_workers: int
) -> None:
    """At lines of fastload's: the memory of the fake GPU has finalizers in Python."""
    run_device_child(
        f"""
        from devices import played
        from dropped_iterators import press_at_every_line
        from line_interrupts import is_of_fastload

        tensors = torch.utils.data.TensorDataset(torch.arange(42.0).view(14, 3), torch.arange(14))
        with played(1) as device:
            make = lambda: fastload.DataLoader({kind}, 2, num_workers={num_workers}, device=device.handle)
            num_presses = press_at_every_line(make, is_of_fastload, with_loader=False)
        assert num_presses > 50, num_presses
        """,
        timeout=100,
    )


@WORKERS
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_batch_whose_copy_fails_behind_an_interrupt_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, num_workers: int, number: int
) -> None:
    """The interrupt comes while it is sent, as one of those ahead where there are workers; then it is sent again."""
    dataset = TensorDataset(torch.arange(42.0).view(14, 3), torch.arange(14))
    arguments = {"batch_size": 4, "num_workers": num_workers}
    expected = host_batches(dataset, **arguments)
    copy = by_hand.handle.copy
    left = ["interrupt", "failure"]

    def failing(host: torch.Tensor) -> torch.Tensor:
        if left and torch.equal(host, expected[number][1]):
            if left.pop(0) == "interrupt":
                signal.raise_signal(signal.SIGINT)
            raise RuntimeError("CUDA error: unspecified launch failure")
        return copy(host)

    monkeypatch.setattr(by_hand.handle, "copy", failing)
    loader = loader_on(by_hand, dataset, **arguments)
    came = [
        outcome if isinstance(outcome, BaseException) else read_all(by_hand, outcome)
        for outcome in outcomes(loader, KeyboardInterrupt, RuntimeError)
    ]
    assert not left
    assert [type(one) for one in came].count(KeyboardInterrupt) == 1
    errors = [one for one in came if isinstance(one, fastload.DeviceError)]
    assert [str(error).partition(" (")[0] for error in errors] == [f"batch {number}"]
    found = [one for one in came if not isinstance(one, BaseException)]
    assert_same(expected[:number] + expected[number + 1 :], values(by_hand, found))


def test_after_faults_no_event_is_left(still_images: ImageFolder) -> None:
    device = Fake()
    list(fastload.DataLoader(still_images, batch_size=7, device=device.handle))
    gc.collect()
    device.synchronize()
    handle = device.handle
    before = handle.gpu.num_events
    for _ in range(5):
        list(fastload.DataLoader(still_images, batch_size=7, device=handle))
        gc.collect()
        device.synchronize()
    assert handle.gpu.num_events <= before + 3  # of the last ring, looked after by the next one
