"""Storage that fails while it is read: a shim before libc makes each failure at a chosen place.

tests/helpers/failing_calls.c is the shim. It counts the calls of one kind on one file. From the n-th on it makes some
fail, return less, or wait until another process has changed the file.
"""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from warm_python import WarmPython

# Runs in the child: twelve samples in batches of four, with number 5, a JPEG, and number 6, a PNG, spoilt.
PRELUDE = """
import contextlib, errno, itertools, os, resource, subprocess, time
from pathlib import Path
import recipes, torch
from failing_calls import FAIL, FOREVER, PAUSE, SHORT, Shim
from image_folders import make_clean_folder, save_jpeg, synthetic_image
import fastload

NUM_WORKERS = int(os.environ["FAULTS_NUM_WORKERS"])
shim = Shim().library
torch.set_num_threads(1)

make_clean_folder(Path("images"), 12, num_classes=1)
paths = sorted(path.resolve() for path in Path("images/class0").iterdir())
JPEG, PNG = paths[5], paths[6].with_suffix(".png")
synthetic_image(6, 150, 170).save(PNG)
paths[6].unlink()
paths[6] = PNG
POSITIONS = {JPEG: 5, PNG: 6}
loader = fastload.DataLoader(
    fastload.ImageFiles(paths, range(12), recipes.evaluation(64, 56)), batch_size=4, num_workers=NUM_WORKERS
)
assert loader.explain().startswith("native")

def epoch():
    batches, errors = {}, []
    iterator = iter(loader)
    for number in range(3):
        try:
            images, labels = next(iterator)
            assert labels.tolist() == list(range(4 * number, 4 * number + 4))
            batches[number] = images.numpy().tobytes()
        except fastload.SampleError as error:
            errors.append((number, error))
    assert next(iterator, None) is None
    return batches, errors

GOOD = epoch()[0]
assert len(GOOD) == 3

@contextlib.contextmanager
def fault(call, path, action, value=0, first=1, times=FOREVER, short_before=0):
    shim.shim_set(call.encode(), os.fsencode(path.name), action, value, first, times, short_before)
    yield
    reached = shim.shim_seen()
    shim.shim_set(b"", b"", 0, 0, 0, 0, 0)
    assert reached >= first, f"{call} of {path} came {reached} times, so nothing was injected"

def check_costs_one_batch(what, errors, batches, path, stage, number):
    assert batches == {0: GOOD[0], 2: GOOD[2]}, (what, list(batches), errors)
    [(batch, error)] = errors
    assert batch == 1, what
    assert isinstance(error, OSError if number else fastload.SampleError), (what, type(error).__mro__)
    assert (error.errno, error.stage) == (number, stage), (what, error.errno, error.stage, str(error))
    assert (error.index, error.path) == (POSITIONS[path], str(path)), what
    assert path.name in str(error), what
    if number:
        assert os.strerror(number) in str(error), (what, str(error))
        assert errno.errorcode[number] in str(error), (what, str(error))

def check_is_good_again():
    batches, errors = epoch()
    assert (batches, errors) == (GOOD, []), errors

@contextlib.contextmanager
def another_process(script):
    # Runs `script` in a shell while the loader waits inside the call that `fault` names.
    for name in ("reached", "go"):
        Path(name).unlink(missing_ok=True)
    shim.shim_pause_files(os.fsencode(Path("reached").resolve()), os.fsencode(Path("go").resolve()))
    changer = subprocess.Popen(["sh", "-ec", f"while [ ! -e reached ]; do sleep 0.01; done; {script}; : > go"])
    yield
    assert changer.wait(5) == 0
"""

FaultChild = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python_with_shim(shim: Path) -> Iterator[WarmPython]:
    python = WarmPython(LD_PRELOAD=str(shim))
    yield python
    python.close()


@pytest.fixture(params=[0, 2], ids=["num_workers=0", "num_workers=2"])
def run_with_faults(
    request: pytest.FixtureRequest, run_child: Callable[..., Any], python_with_shim: WarmPython
) -> FaultChild:
    """Runs code after PRELUDE with the shim in place, once per number of threads."""
    variables = {"FAULTS_NUM_WORKERS": str(request.param)}

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return run_child(PRELUDE + textwrap.dedent(code), env=variables, timeout=60, warm=python_with_shim)

    return run


def test_an_error_of_the_system_names_its_number_the_stage_and_the_file(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        stages = {"open": "open", "fstat": "open", "pread": "read"}
        numbers = {
            "open": (errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ELOOP, errno.ENOMEM),
            "fstat": (errno.EIO, errno.ESTALE, errno.EACCES),
            "pread": (errno.EIO, errno.ESTALE, errno.EACCES, errno.EAGAIN),
        }
        for call, path in itertools.product(stages, (JPEG, PNG)):
            for number in numbers[call]:
                with fault(call, path, FAIL, number):
                    batches, errors = epoch()
                check_costs_one_batch((call, path, number), errors, batches, path, stages[call], number)
                check_is_good_again()
        assert loader.stats().samples_failed == 2 * sum(map(len, numbers.values()))
    """)


def test_an_error_in_the_middle_of_a_file_is_told_with_its_offset(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        for path in (JPEG, PNG):
            with fault("pread", path, FAIL, errno.EIO, first=3, short_before=1000):
                batches, errors = epoch()
            check_costs_one_batch(path, errors, batches, path, "read", errno.EIO)
            assert errors[0][1].offset == 2000
        check_is_good_again()
    """)


def test_an_error_while_pillow_reads_is_the_same_error(run_with_faults: FaultChild) -> None:
    # The native reader comes first, so Pillow's open is the second.
    run_with_faults("""
        for number in (errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE):
            with fault("open", PNG, FAIL, number, first=2):
                batches, errors = epoch()
            check_costs_one_batch(("open", number), errors, batches, PNG, "open", number)
        for number, first in itertools.product((errno.EIO, errno.ESTALE), (1, 2, 3)):
            with fault("read", PNG, FAIL, number, first=first):
                batches, errors = epoch()
            check_costs_one_batch(("read", number, first), errors, batches, PNG, "read", number)
        check_is_good_again()
    """)


def test_interrupted_calls_are_made_again(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        calls = ("open", JPEG), ("fstat", JPEG), ("pread", JPEG), ("open", PNG), ("read", PNG)
        for call, path in calls:
            with fault(call, path, FAIL, errno.EINTR, times=5):
                check_is_good_again()
        with fault("open", PNG, FAIL, errno.EINTR, first=2, times=5):  # Pillow's
            check_is_good_again()
        with fault("pread", JPEG, FAIL, errno.EINTR, first=3, times=5, short_before=1000):
            check_is_good_again()
        assert loader.stats().samples_failed == 0
    """)


@pytest.mark.smoke
def test_short_reads_are_continued(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        for call, path, size in itertools.product(("pread", "read"), (JPEG, PNG), (13, 1000)):
            if (call, path) != ("read", JPEG):  # Pillow never reads that one
                with fault(call, path, SHORT, size):
                    check_is_good_again()
        assert loader.stats().samples_failed == 0
    """)


@pytest.mark.smoke
def test_a_file_truncated_in_place_by_another_process_is_an_error(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        for path in (JPEG, PNG):
            contents = path.read_bytes()
            with another_process(f"truncate -s 500 {path}"), fault("pread", path, PAUSE, times=1):
                batches, errors = epoch()
            assert path.stat().st_size == 500
            check_costs_one_batch(path, errors, batches, path, "read", None)
            assert errors[0][1].offset == 500
            assert isinstance(errors[0][1], OSError)
            assert "became shorter while it was read" in str(errors[0][1])
            path.write_bytes(contents)
            check_is_good_again()
        # Halfway through, and between Pillow's reads.
        with another_process(f"truncate -s 1500 {JPEG}"):
            contents = JPEG.read_bytes()
            with fault("pread", JPEG, PAUSE, first=3, times=1, short_before=1000):
                batches, errors = epoch()
        check_costs_one_batch("jpeg", errors, batches, JPEG, "read", None)
        JPEG.write_bytes(contents)
        with another_process(f"truncate -s 500 {PNG}"), fault("read", PNG, PAUSE, times=1):
            batches, errors = epoch()
        check_costs_one_batch("png", errors, batches, PNG, "decode", None)
        assert isinstance(errors[0][1], OSError)
    """)


def test_a_file_that_grows_while_it_is_read_is_read_as_long_as_it_was(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        for path in (JPEG, PNG):
            grow = f"head -c 3000000 /dev/zero >> {path}"
            with another_process(grow), fault("pread", path, PAUSE, times=1):
                check_is_good_again()
            assert path.stat().st_size > 3000000
    """)


def test_a_file_replaced_while_it_is_open_gives_the_old_image_and_later_the_new(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        save_jpeg(Path("other.jpg"), 99, 311, 207)
        other = Path("other.jpg").read_bytes()
        for call in ("fstat", "pread"):
            with another_process(f"mv other.jpg {JPEG}"), fault(call, JPEG, PAUSE, times=1):
                check_is_good_again()
            assert JPEG.read_bytes() == other
            batches, errors = epoch()
            assert not errors
            assert batches[1] != GOOD[1]
            Path("other.jpg").write_bytes(other)
            make_clean_folder(Path("again"), 12, num_classes=1)
            Path("again/class0", JPEG.name).replace(JPEG)
        # Before it is opened: the new image.
        with another_process(f"mv other.jpg {JPEG}"), fault("open", JPEG, PAUSE, times=1):
            batches, errors = epoch()
        assert not errors
        new = recipes.evaluation(64, 56)(recipes.pillow_image(str(JPEG))).numpy().tobytes()
        size = len(new)
        assert batches[1][:size] + batches[1][2 * size :] == GOOD[1][:size] + GOOD[1][2 * size :]
        assert batches[1][size : 2 * size] == new
    """)


def test_a_file_replaced_all_the_time_is_never_a_mixture(run_with_faults: FaultChild) -> None:
    # Without the shim: another process swaps a JPEG and a PNG of other sizes under one name, as fast as it can.
    run_with_faults("""
        folder = Path("swapped").resolve()
        folder.mkdir()
        save_jpeg(folder / "a", 1, 200, 150)
        synthetic_image(2, 97, 240).save(folder / "b", "PNG")
        transform = recipes.evaluation(64, 56)
        whole = {name: transform(recipes.pillow_image(str(folder / name))).numpy().tobytes() for name in "ab"}
        name = folder / "image"
        name.write_bytes((folder / "a").read_bytes())
        files = fastload.ImageFiles([name] * 200, [0] * 200, transform)
        swapped_loader = fastload.DataLoader(files, num_workers=NUM_WORKERS)
        seen, epochs, end = set(), 0, time.monotonic() + 30
        swap = "while :; do for f in a b; do ln -f $f next; mv next image; done; done"
        swapper = subprocess.Popen(["sh", "-c", swap], cwd=folder)
        try:
            while epochs < 3 or (len(seen) < 2 and time.monotonic() < end):
                seen |= {images.numpy().tobytes() for images, _ in swapped_loader}
                epochs += 1
        finally:
            swapper.kill()
            swapper.wait()
        assert seen == set(whole.values())
    """)


def test_a_process_without_free_descriptors_says_so_and_few_are_needed(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        iterator = iter(loader)
        errors = []
        for number in range(3):
            try:
                next(iterator)
            except fastload.SampleError as error:
                errors.append(error)
        assert [(error.errno, error.stage, error.index) for error in errors] == [
            (errno.EMFILE, "open", index) for index in (0, 4, 8)
        ]
        assert all(isinstance(error, OSError) for error in errors)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        check_is_good_again()
        # One is enough for each thread that reads: native ones, and as many of Pillow's.
        used = {int(name) for name in os.listdir("/proc/self/fd") if Path("/proc/self/fd", name).exists()}
        free = [number for number in range(max(used)) if number not in used]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(used) + 1 + max(1, 2 * NUM_WORKERS), hard))
        holders = [os.open("/dev/null", os.O_RDONLY) for _ in free]
        check_is_good_again()
    """)


def test_a_path_longer_than_the_system_takes_is_named(run_with_faults: FaultChild) -> None:
    run_with_faults("""
        for path in ("/" + "/".join(["d" * 200] * 25) + "/x.jpg", "y" * 256 + ".jpg", "./" * 2048 + "x.jpg"):
            files = fastload.ImageFiles([*paths[:2], path], range(3), recipes.evaluation(64, 56))
            iterator = iter(fastload.DataLoader(files, num_workers=NUM_WORKERS))
            assert len([next(iterator), next(iterator)]) == 2
            try:
                next(iterator)
            except fastload.SampleError as error:
                assert isinstance(error, OSError)
                assert (error.errno, error.stage) == (errno.ENAMETOOLONG, "open")
                assert (error.index, error.path) == (2, path)
                assert path in str(error)
                assert os.strerror(errno.ENAMETOOLONG) in str(error)
            else:
                raise AssertionError(f"{len(path)} bytes were taken")
    """)


@pytest.mark.parametrize("rng", ["torch", "sample"])
def test_a_read_that_fails_once_costs_a_new_try_or_the_sample_for_this_time(
    run_with_faults: FaultChild, rng: str
) -> None:
    """If it fails, the draws are a missing file's, which cannot be opened."""
    run_with_faults(f"""
        RNG, SEED = {rng!r}, {3 if rng == "sample" else None}
        from bad_folders import ByHand

        def loaded(files, times=0, **arguments):
            dataset = fastload.ImageFiles(files, range(12), recipes.training(24))
            loader = fastload.DataLoader(
                dataset, 4, num_workers=NUM_WORKERS, rng=RNG, seed=SEED, on_error="replace", max_errors=1, **arguments
            )
            assert loader.explain().is_native
            torch.manual_seed(1)
            with fault("pread", JPEG, FAIL, errno.EIO, times=times) if times else contextlib.nullcontext():
                first = [(images.numpy().tobytes(), labels.tolist()) for images, labels in loader]
            second = [label for _, labels in loader for label in labels.tolist()]
            return first, second, loader.stats().samples_replaced

        good, labels, num_replaced = loaded(paths)
        assert (labels, num_replaced) == (list(range(12)), 0)
        gone = [*paths]
        gone[5] = Path("gone.jpg")
        missing, _, _ = loaded(gone)
        instead = fastload.substitute(5, 1, 12)
        assert missing[1][1] == [4, instead, 6, 7]
        assert loaded(paths, times=1) == (missing, labels, 1), "tried anew in the next epoch"
        assert loaded(paths, times=1, retries=1) == (good, labels, 0)
        assert loaded(paths, times=2, retries=1) == (missing, labels, 1)
        if RNG == "torch":
            by_hand = ByHand(fastload.ImageFiles(gone, range(12), recipes.training(24)), None)
            torch.manual_seed(1)
            torchs = torch.utils.data.DataLoader(by_hand, 4, num_workers=NUM_WORKERS)
            assert missing == [(images.numpy().tobytes(), labels.tolist()) for images, labels in torchs]
    """)
