"""Installs as the documents say, in Debian systems that have nothing but what they name: `make fresh`.

    python tests/fresh.py                                    # bookworm and trixie
    python tests/fresh.py trixie --bench=--quick --test="-k layers"
    python tests/fresh.py --image cpu                        # the steps of the Dockerfile's stage, without an engine

A system gets the packages and the virtual environment of docs/install.md, then the README's own commands, as a user who
is not root. A command that fails, as it does where the documents forget a step, ends its system; the others go on. The
systems stay in build/fresh. It needs root and mmdebstrap; bare_system.py has what comes from this machine.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).with_name("helpers")))

import checkout
from architecture.documents import ROOT, blocks, commands_of
from bare_system import BareSystem
from image_steps import ImageBuilder

SUITES = ("bookworm", "trixie")
USER = "user"
_OWN_FOLDER = "photos"
CHECKOUT = f"/home/{USER}/checkout"
RECORD = tuple[str, str, float, int]

# torch's loader and fastload's with the same seed, on files that need every part of the decoder.
COMPARE = """
import pathlib, numpy, torch, torchvision, fastload
from PIL import Image
folder = pathlib.Path("images/a"); folder.mkdir(parents=True, exist_ok=True)
for number in range(24):
    pixels = numpy.random.default_rng(number).integers(0, 256, (97 + number, 131, 3), dtype=numpy.uint8)
    Image.fromarray(pixels).resize((400, 300)).save(folder / f"{number}.jpg", progressive=number % 2 == 0)
change = torchvision.transforms.Compose(
    [torchvision.transforms.RandomResizedCrop(64), torchvision.transforms.ToTensor()]
)
batches = []
for loader in (torch.utils.data.DataLoader, fastload.DataLoader):
    torch.manual_seed(1)
    dataset = torchvision.datasets.ImageFolder("images", change)
    batches.append([images for images, _ in loader(dataset, batch_size=8, shuffle=True, num_workers=2)])
assert all(map(torch.equal, *batches)), "the bytes differ"
print("equal bytes:", fastload.build_info())
"""


@dataclass(frozen=True)
class Steps:
    """The documents' steps, in order.

    Attributes:
        packages: Names of Debian's packages.
        environment: Commands that make and activate the virtual environment.
        commands: The README's commands, without the ones for the user's own images.
    """

    packages: list[str]
    environment: list[str]
    activate: str
    commands: list[str]


def documented_steps() -> Steps:
    """Raises ValueError: docs/install.md has no block that begins with apt install, or README no block of commands."""
    lists = [list(commands_of(block)) for block in blocks("docs/install.md") if block.language == "bash"]
    start = next((lines for lines in lists if lines[0].startswith("apt install ")), None)
    readme = [line for block in blocks("README.md") if block.language == "bash" for line in commands_of(block)]
    readme = [line for line in readme if _OWN_FOLDER not in line.split()]
    if start is None or not readme:
        raise ValueError("docs/install.md needs a block of bash that begins with apt install, README.md one at all")
    activate = next(line for line in start if line.startswith(". "))
    environment = [line for line in start[1:] if line != activate]
    return Steps(shlex.split(start[0])[2:], environment, activate, readme)


def new_system(suite: str, steps: Steps) -> BareSystem:
    """Makes a system with the packages, a user, a copy of the checkout and the virtual environment."""
    system = BareSystem.make(suite, ROOT / "build" / "fresh" / suite)
    packages = shlex.join(steps.packages)
    must(system, f"apt-get -qq update && apt-get -qq install --yes --no-install-recommends {packages}")
    must(system, f"useradd --create-home {USER}")
    for name in checkout.files():
        target = system.path(CHECKOUT) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    must(system, f"chown --recursive {USER}: {CHECKOUT}")
    for line in steps.environment:
        must(system, line, user=USER, folder=CHECKOUT)
    return system


def must(system: BareSystem, command: str, *, user: str = "root", folder: str = "/") -> None:
    """Raises CalledProcessError: the command fails."""
    status = system.run(command, user=user, folder=folder)
    if status != 0:
        raise subprocess.CalledProcessError(status, command)


def run_readme(suite: str, steps: Steps, arguments: dict[str, str], record: Callable[[RECORD], None]) -> bool:
    """Runs all of the README's commands; returns whether they succeed."""
    began = time.monotonic()
    try:
        system = new_system(suite, steps)
    except subprocess.CalledProcessError as error:
        record((suite, str(error.cmd), seconds(began), error.returncode))
        return False
    record((suite, f"a system with {shlex.join(steps.packages)}", seconds(began), 0))
    for line in steps.commands:
        command = line + (f" ARGS={shlex.quote(arguments[line])}" if arguments.get(line) else "")
        print(f"== {suite}: {command}", flush=True)
        began = time.monotonic()
        status = system.run(f"{steps.activate} && {command}", user=USER, folder=CHECKOUT)
        record((suite, command, seconds(began), status))
        if status != 0:
            return False
    return True


def seconds(began: float) -> float:
    return time.monotonic() - began


def run_image(stage: str, record: Callable[[RECORD], None]) -> bool:
    """Runs the steps of a stage of the Dockerfile; returns whether they succeed and its loader has torch's bytes."""
    builder = ImageBuilder((ROOT / "Dockerfile").read_text(), ROOT, ROOT / "build" / "fresh" / "images")
    began = time.monotonic()
    try:
        image = builder.build(stage)
    except subprocess.CalledProcessError as error:
        record((stage, str(error.cmd), seconds(began), error.returncode))
        return False
    record((stage, "the steps of the Dockerfile", seconds(began), 0))
    began = time.monotonic()
    statuses = [image.run(image.command), image.run(shlex.join(["python", "-c", COMPARE]))]
    record((stage, f"{image.command}, and a comparison with torch", seconds(began), max(statuses)))
    return max(statuses) == 0


def format_record(records: list[RECORD]) -> str:
    lines = [f"{'system':<10} {'minutes':>7}  command"]
    for system, command, taken, status in records:
        outcome = "" if status == 0 else f"   failed, exit status {status}"
        lines.append(f"{system:<10} {taken / 60:>7.1f}  {command}{outcome}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help=f"of Debian; default: {' '.join(SUITES)}")
    parser.add_argument("--only", default="", help="run the commands with this text alone, such as 'make test'")
    parser.add_argument("--bench", default="", help="ARGS of make bench")
    parser.add_argument("--test", default="", help="ARGS of make test")
    parser.add_argument("--image", help="a stage of the Dockerfile; then the README's commands are not run")
    options = parser.parse_args(arguments)
    records: list[RECORD] = []
    good = True
    if options.image is not None:
        good = run_image(options.image, records.append)
    else:
        steps = documented_steps()
        steps = replace(steps, commands=[line for line in steps.commands if options.only in line])
        for suite in options.suites or SUITES:
            good &= run_readme(suite, steps, {"make bench": options.bench, "make test": options.test}, records.append)
    print(f"\n{format_record(records)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
