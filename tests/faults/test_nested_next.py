"""next() inside next(), and threads that share a loader or an iterator. In children, which are killed if they hang."""

from __future__ import annotations

import pytest
from children import RunChild

PRELUDE = """
    from torch.utils.data import Dataset

    class Numbers(Dataset):
        inside = staticmethod(lambda index: None)
        def __len__(self):
            return 12
        def __getitem__(self, index):
            self.inside(index)
            return index

    raised, has_iterator = [], threading.Event()
    def nested(*arguments):
        # Threads may get here before iter() has returned.
        if has_iterator.wait(20) and not raised:
            try:
                next(iterator)
            except ValueError as error:
                raised.append(str(error))
        return list(arguments)
"""
SAMPLER = "sampler=map(lambda n: nested(n)[0], range(12))"
# Code that calls next() inside next().
PLACES = {
    "data set": "dataset.inside = nested; loader = fastload.DataLoader(dataset, 4)",
    "data set, threads": "dataset.inside = nested; loader = Threads(dataset, 4, num_workers=1)",
    "collate_fn": "loader = fastload.DataLoader(dataset, 4, collate_fn=nested)",
    "collate_fn, threads": "loader = Threads(dataset, 4, num_workers=2, collate_fn=nested)",
    "sampler": f"loader = fastload.DataLoader(dataset, 4, {SAMPLER})",
    "sampler, native": f"loader = make_loader(0, repeats=1, batch_size=4, {SAMPLER})",
    "device_transform": "loader = fastload.DataLoader(dataset, 4, num_workers=1, device_transform=nested)",
    "signal": "dataset.inside = lambda n: n == 5 and os.kill(os.getpid(), signal.SIGALRM); "
    "signal.signal(signal.SIGALRM, nested); loader = fastload.DataLoader(dataset, 4)",
}


@pytest.mark.parametrize(
    "place",
    [pytest.param(name, marks=pytest.mark.smoke if name in ("data set", "collate_fn") else ()) for name in PLACES],
)
def test_next_inside_of_next_is_an_error_and_costs_no_batch(run_loader_child: RunChild, place: str) -> None:
    run_loader_child(
        PRELUDE
        + f"""
    dataset = Numbers()
    {PLACES[place]}
    iterator = iter(loader)
    has_iterator.set()
    assert len(list(iterator)) == 3
    assert len(raised) == 1
    assert raised[0].startswith("iterator already executing"), raised
    assert raised[0].endswith("an iterator of its own: iter(loader)"), raised
    """,
        timeout=40,
    )


@pytest.mark.smoke
@pytest.mark.parametrize("make", ["make_loader", "make_python_part_loader"])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_threads_that_iterate_over_one_loader_at_once_get_iterators(
    run_loader_child: RunChild, make: str, is_persistent: bool
) -> None:
    """As with torch, all get the same iterator of a persistent loader, and each iter() restarts it."""
    run_loader_child(
        f"""
        loader = {make}(2, repeats=4, batch_size=8, persistent_workers={is_persistent}, shuffle=True)
        barrier, came, errors = threading.Barrier(8), [], []
        def iterate():
            try:
                for _ in range(3):
                    barrier.wait()
                    iterator = iter(loader)
                    came.append(iterator)
                    barrier.wait()
                    came.append(sum(len(images) for images, _ in iterator))
            except BaseException as error:
                errors.append(error)
                barrier.abort()
        threads = [threading.Thread(target=iterate) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        counts = [count for count in came if isinstance(count, int)]
        assert len(counts) == 24
        assert sum(counts) == 48 * (3 if {is_persistent} else 24), counts
        if {is_persistent}:
            assert len({{id(each) for each in came if not isinstance(each, int)}}) == 1
        """,
        timeout=60,
    )


def test_a_thread_that_begins_an_epoch_waits_for_another_in_next(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        entered, may_end = threading.Event(), threading.Event()
        def linger(image):
            entered.set()
            may_end.wait(20)
            return image
        loader = make_python_part_loader(1, linger, repeats=1, persistent_workers=True)
        iterator, came = iter(loader), []
        taking = threading.Thread(target=lambda: came.append(next(iterator)))
        taking.start()
        assert entered.wait(20)
        beginning = threading.Thread(target=lambda: came.append(iter(loader)))
        beginning.start()
        assert not came
        may_end.set()
        taking.join()
        beginning.join()
        assert came[1] is iterator
        assert len(list(iterator)) == 12
        """
    )


def test_iter_in_a_forked_child_waits_for_no_thread_of_the_parent(run_loader_child: RunChild) -> None:
    run_loader_child(
        """
        has_begun, may_end = threading.Event(), threading.Event()
        class Batches(list):
            def __iter__(self):
                if threading.current_thread() is not threading.main_thread():
                    has_begun.set()
                    may_end.wait()
                return super().__iter__()
        loader = make_python_part_loader(1, repeats=1, batch_size=1, batch_sampler=Batches([[0], [1]]))
        thread = threading.Thread(target=lambda: list(loader))
        thread.start()
        has_begun.wait()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if len(list(loader)) == 2 else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        may_end.set()
        thread.join()
        assert status == 0
        """
    )
