"""examples/imagenet.py: it learns, and by either loader, in one process or two, every number is the same."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

from children import RunChild
from loopback import need_loopback

SETTINGS = ["--model=resnet18", "--size=32", "--learning-rate=0.003", "--batch-size=8", "--workers=2"]
SETTINGS += ["--print-every=1"]
RUNNER = Path(__file__).resolve().parents[1] / "helpers" / "example_runner.py"
LOADERS = ("fastload", "torch")


def numbers_of(output: str) -> tuple[list[float], list[float]]:
    """Returns the losses, to the last digit, and the accuracies."""
    losses = re.findall(r"^epoch \d+, step \d+: loss (\S+)$", output, re.MULTILINE)
    accuracies = re.findall(r"^epoch \d+: accuracy (\S+), \d+ images/s$", output, re.MULTILINE)
    return [*map(float, losses)], [*map(float, accuracies)]


def test_it_learns_with_the_losses_and_accuracies_of_torchs_loader(run_example: Any, tinted_folder: Path) -> None:
    mine, theirs = (
        run_example("imagenet.py", tinted_folder, f"--loader={loader}", "--epochs=3", *SETTINGS).stdout
        for loader in LOADERS
    )
    losses, accuracies = numbers_of(mine)
    assert (losses, accuracies) == numbers_of(theirs)
    assert (len(losses), len(accuracies)) == (3 * 48 // 8, 3)
    assert losses[-1] < losses[0] / 4
    assert accuracies[-1] >= 0.9
    assert mine.endswith("native: 144 of 144 images to train on\n")


def test_two_ranks_of_torchrun_train_as_with_torchs_loader(run_child: RunChild, tinted_folder: Path) -> None:
    need_loopback()
    interface = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    outputs = {}
    for loader in LOADERS:
        words = ["--standalone", "--nproc-per-node=2", str(RUNNER), "imagenet.py", str(tinted_folder)]
        words += [f"--loader={loader}", "--epochs=2", *SETTINGS]
        environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface}
        code = f"from torch.distributed.run import main\nmain({words})"
        outputs[loader] = run_child(code, timeout=150, env=environment).stdout
    losses, accuracies = numbers_of(outputs["fastload"])
    assert (losses, accuracies) == numbers_of(outputs["torch"])
    assert (len(losses), len(accuracies)) == (2 * 48 // 2 // 8, 2)  # only the first rank prints
    assert outputs["fastload"].endswith("native: 48 of 48 images to train on\n")  # of its half
