"""Every way in which a process ends, with loaders of every kind in every state: its own status, its own last words.

No process is left: a child has ended when the last process that it has started closes its output.
"""

from __future__ import annotations

import pytest
from children import RunChild

LOADERS = {
    "native": "make_loader(2, repeats=2000, batch_size=4, persistent_workers=is_persistent)",
    "partly native": "make_python_part_loader(2, repeats=2000, batch_size=4, persistent_workers=is_persistent)",
    "Python": "Threads(Numbered(20_000), 4, num_workers=2, persistent_workers=is_persistent)",
    "stream": "fastload.DataLoader(Stream(), 4, num_workers=2, persistent_workers=is_persistent)",
    "processes": "fastload.DataLoader(Numbered(20_000), 4, num_workers=2, workers='processes')",
}
STATES = {
    "in an epoch": "held = iter(loader); next(held)",
    "between epochs": "[None for _ in zip(loader, range(3))]",
    "in a cycle": "held = iter(loader); next(held); held.me = held; del held",
    "in another thread": "threading.Thread(target=lambda: list(loader), daemon=True).start(); time.sleep(0.2)",
}
# The action of the process, its status, and its last output.
ENDS = {
    "return": ("", 0, ""),
    "exception": ("raise ValueError('mine')", 1, "ValueError: mine"),
    "exit": ("sys.exit(7)", 7, ""),
    "at once": ("os._exit(3)", 3, ""),
    # A separate interpreter would end by the signal; run_child's process has to go on.
    "interrupt": ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", 1, "KeyboardInterrupt"),
    "terminated": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -15, ""),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL); time.sleep(60)", -9, ""),
}
CASES = [(loader, state, end) for loader in LOADERS for state in STATES for end in ENDS]
_CODE = """
from numbered import Numbered
from torch.utils.data import IterableDataset

class Stream(IterableDataset):
    def __iter__(self):
        for number in range(20_000):
            yield torch.rand(8)

is_persistent = {is_persistent}
loader = {loader}
{state}
{end}
"""


@pytest.mark.smoke
@pytest.mark.parametrize(("loader", "state", "end"), CASES)
def test_a_process_ends_as_it_would_without_a_loader(
    run_loader_child: RunChild, loader: str, state: str, end: str
) -> None:
    ending, status, words = ENDS[end]
    code = _CODE.format(
        is_persistent=state == "between epochs", loader=LOADERS[loader], state=STATES[state], end=ending
    )
    result = run_loader_child(code, check=False)
    assert result.returncode == status
    assert (result.stderr.splitlines() or [""])[-1] == words, result.stderr
