"""Exceptions that a signal handler raises inside next(): the batches are the same as without them."""

from __future__ import annotations

import pytest
from children import RunChild

PRELUDE = """
    import operator
    from signal_exceptions import OwnError, losses
    from torch.utils.data import Dataset, IterableDataset

    class Numbers(Dataset):
        def __len__(self):
            return 160
        def __getitem__(self, index):
            return torch.full((4,), float(index))

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(torch.arange(160.0))

    LISTS = [list(range(first, first + 8)) for first in range(152, -1, -8)]
"""
SMALL = "dict(repeats=14, batch_size=8, shuffle=True)"
LISTS = "dict(repeats=14, batch_sampler=LISTS)"
# A loader for each name, and the seconds within which a signal comes.
LOADERS = {
    "native": ("make_loader(0, repeats=4, batch_size=4, shuffle=True)", 0.002),
    "native, threads": (f"make_loader(2, **{SMALL})", 0.001),
    "native, own sampler": ("make_loader(1, repeats=14, batch_size=1, batch_sampler=LISTS)", 0.001),
    "native, persistent": (f"make_loader(2, persistent_workers=True, rng='sample', seed=4, **{SMALL})", 0.001),
    "partly native": (f"make_python_part_loader(2, **{SMALL})", 0.001),
    "partly native, own sampler": (f"make_python_part_loader(1, **{LISTS})", 0.001),
    "Python": ("fastload.DataLoader(Numbers(), 8, shuffle=True)", 0.0004),
    "Python, threads": ("Threads(Numbers(), 8, shuffle=True, num_workers=2)", 0.0004),
    "Python, own sampler": ("fastload.DataLoader(Numbers(), batch_sampler=LISTS, num_workers=1)", 0.0004),
    "stream": ("fastload.DataLoader(Stream(), 8, num_workers=2)", 0.0004),
    "transform": ("fastload.DataLoader(Numbers(), 8, num_workers=2, device_transform=operator.neg)", 0.0004),
}
IN_SMOKE = ("native, threads", "partly native", "Python, threads")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.smoke if name in IN_SMOKE else ()) for name in LOADERS]
)
def test_exceptions_at_random_moments_cost_and_change_no_batch(run_loader_child: RunChild, name: str) -> None:
    loader, longest_seconds = LOADERS[name]
    run_loader_child(
        PRELUDE
        + f"""
    def digest(batch):
        images = batch[0] if isinstance(batch, list) else batch
        return hashlib.sha256(images.numpy().tobytes()).digest()

    def make():  # not under the alarms: listing a folder, Python takes a TimeoutError for one that cannot be read
        global loader
        loader = {loader}

    def begin(number):
        torch.manual_seed(3)
        return iter(loader)

    make()
    assert losses(begin, digest, 80, {longest_seconds}, drop=make) == 0
    """,
        timeout=200,
    )


# Functions of fastload that are called at places where errors mean something else: a module or class, a name, and the
# loader that calls it.
PLACES = {
    "transform": ("_pipelines.PythonPart", "run", "loader_of(torch.neg)"),
    "Pillow": ("_pillow", "_identified", "loader_of(torch.neg)"),
    "description": ("_pillow", "_open_file", "make_loader(0, repeats=1, batch_size=4)"),
    "info": ("_pillow", "image_info_in", "loader_of(before=[turned])"),
    "opener": ("_opened", "_read", "loader_of(loader=opened)"),
    "hooks": ("_recognize", "has_global_hooks", "loader_of(loader=opened)"),
    "tensor part": ("_tensor_part", "as_reference", "make_loader(0, repeats=1, batch_size=4)"),
    "policy": ("_auto_augment", "_enumerated", "loader_of(before=[transforms.RandAugment()])"),
    "store": ("_loader_cache", "open_store", "make_loader(0, repeats=1, batch_size=4, cache=fastload.Cache('store'))"),
    "records": (
        "_file_records",
        "open_built_records",
        "make_loader(0, repeats=1, batch_size=4, cache=fastload.Cache('kept', what='coefficients', max_bytes=10**7))",
    ),
}


@pytest.mark.parametrize(
    "place",
    [pytest.param(place, marks=pytest.mark.smoke if place in ("transform", "Pillow") else ()) for place in PLACES],
)
def test_an_error_that_a_handler_raises_inside_of_fastload_is_the_programs(
    run_loader_child: RunChild, place: str
) -> None:
    """At any call: it is raised as it is, and does not count as an error of the data set or of a transform."""
    owner, name, loader = PLACES[place]
    run_loader_child(
        PRELUDE
        + f"""
    import shutil
    from pathlib import Path
    from child_loader import repeated_images
    from fault_loaders import opened
    from fastload._decode_cache import _file_records, _loader_cache
    from fastload._images import _opened, _pipelines
    from fastload._pillow import _pillow
    from fastload.transforms import _auto_augment, _recognize, _tensor_part
    from PIL import Image
    from torchvision import transforms

    root = Path(shutil.copytree(os.environ["FASTLOAD_TEST_FOLDER"], "images"))
    os.environ["FASTLOAD_TEST_FOLDER"] = str(root)
    files = sorted(root.rglob("*.JPEG"))
    Image.open(files[0]).save(files[0], "PNG")
    if {place == "description"}:
        files[5].write_bytes(b"no image")
    Image.open(files[1]).save(files[1], "JPEG", comment="own")

    def turned(image):
        return image.rotate(90)

    if {place in ("opener", "hooks")}:
        fastload.register_opener()

    def loader_of(*behind, before=(), **more):  # draws nothing in Python: what is done again draws anew
        steps = [transforms.Resize((32, 32)), *before, transforms.ToTensor(), *behind]
        return fastload.DataLoader(repeated_images(transforms.Compose(steps), 1, **more), 4)

    function = {owner}.{name}
    num_calls, at_call, num_sent, num_caught = 0, 0, 0, 0

    def signalling(*arguments, **more):
        global num_calls, num_sent
        num_calls += threading.current_thread() is threading.main_thread()
        if num_calls == at_call and not num_sent:
            num_sent += 1
            os.kill(os.getpid(), signal.SIGALRM)
        return function(*arguments, **more)

    def handle(number, frame):
        raise OwnError

    signal.signal(signal.SIGALRM, handle)

    def done(action):
        global num_caught
        while True:
            try:
                return action()
            except OwnError as error:
                assert type(error) is OwnError, error
                num_caught += 1

    def begin():
        torch.manual_seed(3)
        return iter({loader})

    def outcomes():
        iterator, found = done(begin), []
        while True:
            try:
                batch = done(lambda: next(iterator))
            except StopIteration:
                return found
            except fastload.SampleError as error:
                found.append(str(error))
            else:
                tensor = batch[0] if isinstance(batch, list) else batch
                found.append(hashlib.sha256(tensor.numpy().tobytes()).digest())

    expected = outcomes()
    {owner}.{name} = signalling
    while True:
        at_call += 1
        num_calls = num_sent = num_caught = 0
        found = outcomes()
        assert found == expected, at_call
        assert num_caught == num_sent, at_call
        if not num_sent or at_call == 20:
            break
    assert at_call > 1, "it is called"
    """
    )


@pytest.mark.smoke
def test_an_error_that_a_handler_raises_is_no_difference_of_arrays(run_loader_child: RunChild) -> None:
    """np.array_equal() takes it for one, and a loader would no longer be native."""
    run_loader_child(
        PRELUDE
        + """
    from fastload._process._interrupts import equal_arrays
    from signal_exceptions import Alarms

    alarms, array = Alarms(1), torch.arange(4).numpy()
    while alarms.num_raised < 300:
        assert alarms.done(lambda: all(equal_arrays(array, array.copy()) for _ in range(50)), 1e-3)
    """
    )


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_interrupt_at_any_line_leaves_no_descriptor(run_loader_child: RunChild, num_workers: int) -> None:
    """In the caller's thread Pillow opens files that are not plain JPEGs."""
    run_loader_child(
        PRELUDE
        + f"""
    from pathlib import Path
    from line_interrupts import interrupt_at_every_line, next_of
    from PIL import Image

    Path("images/a").mkdir(parents=True)
    Image.new("RGB", (40, 40), "red").save("images/a/1.png")
    os.environ["FASTLOAD_TEST_FOLDER"] = "images"

    def epoch(interrupt):
        iterator, found = iter(make_python_part_loader({num_workers}, torch.neg, 3)), []
        while True:
            try:
                found.append(next_of(iterator, interrupt)[0].numpy().tobytes())
            except StopIteration:
                return found

    epoch(None)
    wait_for(lambda: not python_part_threads())
    before = os.listdir("/proc/self/fd")
    assert interrupt_at_every_line(epoch) == set()
    gc.collect()
    assert wait_for(lambda: os.listdir("/proc/self/fd") == before), os.listdir("/proc/self/fd")
    """,
        timeout=200,
    )


@pytest.mark.parametrize("kind", ["make_loader", "make_python_part_loader"])
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("error", ["OwnError", "KeyboardInterrupt"])
def test_a_sampler_that_an_exception_has_ended_makes_no_short_epoch(
    run_loader_child: RunChild, kind: str, num_workers: int, error: str
) -> None:
    """It ends every generator. The batches before it come; then there is one error."""
    run_loader_child(
        PRELUDE
        + f"""
    class Batches:
        def __init__(self, length):
            self.length = length
        def __len__(self):
            return self.length
        def __iter__(self):
            for number in range(6):
                if number == 4:
                    os.kill(os.getpid(), signal.SIGALRM)
                yield [number]

    def handle(number, frame):
        raise {error}

    signal.signal(signal.SIGALRM, handle)
    more = dict(prefetch_factor=1) if {num_workers} else {{}}
    for length in (6, 4):
        iterator = iter({kind}({num_workers}, repeats=1, batch_sampler=Batches(length), batch_size=1, **more))
        came = []
        while len(came) < 7:
            try:
                came.append(len(next(iterator)[0]))
            except (OwnError, KeyboardInterrupt) as error:
                came.append("interrupt")
            except RuntimeError as error:
                came.append(str(error))
            except StopIteration:
                break
        assert [step for step in came if step == 1] == [1] * 4, came
        assert came.count("interrupt") == 1, came
        texts = [step for step in came if step not in (1, "interrupt")]
        assert len(texts) == (1 if length == 6 else 0), texts
        assert all(text.startswith("the epoch ends after 4 of 6 batches: a signal's handler raised {error} while "
                                   "Batches was asked") for text in texts), texts
        assert next(iterator, None) is None
    """
    )


def test_an_error_of_the_data_set_costs_its_batch_also_without_workers(run_loader_child: RunChild) -> None:
    """Only an exception of a handler is not an error of the data set."""
    run_loader_child(
        PRELUDE
        + """
    def fail():
        raise OwnError

    class Failing(Numbers):
        def __getitem__(self, index):
            if index == 9:
                fail()
            if index == 25 and not interrupts:
                interrupts.append(index)
                os.kill(os.getpid(), signal.SIGALRM)
            return index

    def handle(number, frame):
        fail()

    interrupts = []
    signal.signal(signal.SIGALRM, handle)
    iterator, came = iter(fastload.DataLoader(Failing(), 8)), []
    while True:
        try:
            came.append(int(next(iterator)[0]))
        except OwnError:
            came.append("error")
        except StopIteration:
            break
    assert came == [0, "error", 16, "error", *range(24, 160, 8)], came
    """
    )
