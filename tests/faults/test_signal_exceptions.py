"""Exceptions that a signal's handler raises inside of next(): what comes is what would have come without them."""

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
# Of each a loader, and the seconds within which a signal comes.
LOADERS = {
    "native": ("make_loader(0, repeats=4, batch_size=4, shuffle=True)", 0.002),
    "native, threads": (f"make_loader(2, **{SMALL})", 0.001),
    "native, own sampler": ("make_loader(1, repeats=14, batch_size=1, batch_sampler=LISTS)", 0.001),
    "native, persistent": (f"make_loader(2, persistent_workers=True, rng='sample', seed=4, **{SMALL})", 0.001),
    "partly native": (f"make_python_part_loader(2, **{SMALL})", 0.001),
    "partly native, own sampler": (f"make_python_part_loader(1, **{LISTS})", 0.001),
    "Python": ("fastload.DataLoader(Numbers(), 8, shuffle=True)", 0.0004),
    "Python, threads": ("fastload.DataLoader(Numbers(), 8, shuffle=True, num_workers=2)", 0.0004),
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

    def epoch():
        torch.manual_seed(3)
        return iter({loader})

    assert losses(epoch, digest, 80, {longest_seconds}) == 0
    """,
        timeout=200,
    )


@pytest.mark.parametrize("kind", ["make_loader", "make_python_part_loader"])
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("error", ["OwnError", "KeyboardInterrupt"])
def test_a_sampler_that_an_exception_has_ended_makes_no_short_epoch(
    run_loader_child: RunChild, kind: str, num_workers: int, error: str
) -> None:
    """It ends every generator. The batches that it has given before come; then there is an error, once."""
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
    """Only what a handler has raised is no error of its own."""
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
