"""System limits that rise from too low to sufficient: right results or clear errors, and a sound loader afterwards."""

from __future__ import annotations

import pytest
from children import RunChild

pytestmark = pytest.mark.alone

PRELUDE = """
from pathlib import Path
from fault_loaders import LoaderCase
from fastload.sources import _folder_scan
from random_limits import FolderTarget, LoaderTarget, assert_holds
from held import held_now

os.environ["FASTLOAD_CACHE"] = "cache"
_folder_scan.SETTLED_AFTER_NS = 0

def loader(kind, num_workers, workers="auto"):
    case = LoaderCase(3, kind, 1, 1, dict(num_workers=num_workers, batch_size=4, shuffle=True, workers=workers))
    case.dataset = case.make_dataset()
    return LoaderTarget(case)

def folder(has_index):
    return FolderTarget(os.environ["FASTLOAD_TEST_FOLDER"], has_index)
"""
DESCRIPTORS = "resource.RLIMIT_NOFILE, list(range(held_now().descriptors - 2, held_now().descriptors + 12))"
SIZES = "resource.RLIMIT_FSIZE, [0, 1, 100, 400, 2**20]"
MEMORY = (
    "resource.RLIMIT_AS, [int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize() + 2**power "
    "for power in range(12, 32, 2)]"
)
# For each: the program, its limit with the levels, and how many levels at least are insufficient.
CASES = {
    "descriptors, native": ("loader('native', 2)", DESCRIPTORS, 1),
    "descriptors, partly native": ("loader('partly native', 2)", DESCRIPTORS, 1),
    "descriptors, caller": ("loader('native', 0)", DESCRIPTORS, 1),
    "descriptors, opened": ("loader('opened', 1)", DESCRIPTORS, 1),
    "descriptors, folder": ("folder(False)", DESCRIPTORS, 1),
    "descriptors, index": ("folder(True)", DESCRIPTORS, 0),
    "size, folder": ("folder(False)", SIZES, 0),  # an index that cannot be written does not count
    "memory, native": ("loader('native', 0)", MEMORY, 0),
    "memory, partly native": ("loader('partly native', 0)", MEMORY, 0),
    "memory, Python": ("loader('Python', 0)", MEMORY, 0),
}
IN_SMOKE = ("descriptors, native", "descriptors, folder", "size, folder")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.smoke if name in IN_SMOKE else pytest.mark.slow) for name in CASES]
)
def test_a_limit_causes_only_errors_until_it_is_lifted(run_loader_child: RunChild, name: str) -> None:
    target, limit, fewest = CASES[name]
    result = run_loader_child(f"{PRELUDE}\nprint(assert_holds({target}, {limit}))", timeout=100)
    assert int(result.stdout) >= fewest


def test_an_event_loop_that_cannot_be_made_leaves_no_descriptor(run_loader_child: RunChild) -> None:
    """A loop that is not complete has one, which no other code closes, not even while another thread collects."""
    run_loader_child(
        PRELUDE
        + """
import asyncio, errno, socket

class SlowlyEnding:
    def __init__(self):
        self.cycle = self
    def __del__(self):
        time.sleep(0.05)

def refuse(*arguments):
    SlowlyEnding()
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

socketpair = socket.socketpair
target = loader("Python", 2, "threads")
assert len(list(target.steps())) == 4
target.drop()
assert wait_for(lambda: held_now().threads == 1)
gc.disable()
before = held_now()
for _ in range(3):
    socket.socketpair = refuse
    try:
        list(target.steps())
    except OSError as error:
        assert os.strerror(errno.EMFILE) in str(error), error
    else:
        raise AssertionError("it has its loop")
    socket.socketpair = socketpair
    target.drop()
    assert wait_for(lambda: held_now() == before, 5), (held_now(), before)
assert len(list(target.steps())) == 4
"""
    )
