"""Puts ten faults into the product, one after the other, and shows that `make test` catches each.

    python tests/seeded_faults.py               # all; some minutes, most of them for the first build
    python tests/seeded_faults.py shrink sort   # those whose names contain one of these words

Works in a copy of the tree, build/seeded_faults, which the next run builds on. For each fault runs the tests of `make
test` until one fails, the fault's own suites first. Exits with 1 if no test catches a fault.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).with_name("helpers")))

import checkout
from cpp.build import mutated

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Fault:
    """One place of the product with other words in it.

    Attributes:
        path: The file, which contains `text` once.
        suites: The files and folders of tests where a failure is expected.
    """

    name: str
    path: str
    text: str
    replacement: str
    suites: str


# It fails in every copy with a fault.
SELF_TEST = "tests/architecture/test_tiers.py::test_every_seeded_fault_can_be_put_into_the_product"
TOP = "if (is_both || rows > 0) box.top = draw_offset(rows, draws);\n"
LEFT = "if (is_both || columns > 0) box.left = draw_offset(columns, draws);\n"
FAULTS = [
    Fault(
        "a crop draws its column before its row",
        "csrc/image/steps/crop.cpp",
        f"{TOP}    {LEFT}",
        f"{LEFT}    {TOP}",
        "tests/oracle/test_random_steps.py",
    ),
    Fault(
        "a sample draws before the one in front of it",
        "csrc/engine/queues/draw_order.cpp",
        "if (!turn.has_size) return false;",
        "if (!turn.has_size) continue;",
        "tests/loader/test_torch_random.py tests/loader/test_recipes.py tests/cpp",
    ),
    Fault(
        "a file that shrinks is taken as it is",
        "csrc/io/file_reader.cpp",
        'return {StatusCode::kFileShrank, 0, done, ""};',
        "break;",
        "tests/faults/test_io_faults.py",
    ),
    Fault(
        "negative resize weights are rounded upwards",
        "csrc/image/resize/resize_plan.cpp",
        "weight < 0.0 ? -0.5 : 0.5",
        "weight < 0.0 ? 0.5 : 0.5",
        "tests/oracle/test_resize.py tests/oracle",
    ),
    Fault(
        "an end of band covers a block less",
        "csrc/codec/jpeg/entropy_progressive.cpp",
        "return (1U << length) +",
        "return (1U << length) - (length > 0 ? 1U : 0U) +",
        "tests/oracle",
    ),
    Fault(
        "restart markers are read as data",
        "csrc/codec/jpeg/scan_data.cpp",
        "restart_interval == 0 ? mcu_count : restart_interval",
        "restart_interval == 0 ? mcu_count : mcu_count",
        "tests/oracle",
    ),
    Fault(
        "names are not sorted",
        "csrc/io/directory_scan.cpp",
        "std::sort(names.begin(), names.end());",
        "",
        "tests/unit/test_folder_index.py tests/unit",
    ),
    Fault(
        "a file that cannot be read is no OSError",
        "fastload/_pillow/_failures.py",
        'elif stage in ("open", "read"):',
        'elif stage == "open":',
        "tests/unit tests/loader",
    ),
    Fault(
        "Python draws again what native code has drawn",
        "fastload/_workers/_native_draws.py",
        "        generator.set_state(self._state)\n",
        "",
        "tests/loader",
    ),
    Fault(
        "the consumer's stream does not wait for the copy",
        "fastload/_delivery/_hand_over.py",
        "self.device.wait_event(self.device.recorded_event())",
        "self.device.recorded_event()",
        "tests/device",
    ),
]


def copy_tree(to: Path) -> None:
    """Copies files that differ, with the time of now, so that they are compiled again; keeps what was built there."""
    names = {name.as_posix() for name in checkout.files()}
    for path in sorted(to.rglob("*")):
        name = path.relative_to(to)
        is_built = path.suffix == ".so" or "build" in name.parts
        if path.is_file() and not is_built and name.as_posix() not in names:
            path.unlink()
    for name in names:
        contents = (ROOT / name).read_bytes()
        if not (to / name).exists() or (to / name).read_bytes() != contents:
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_bytes(contents)


def build(root: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=root, check=True, capture_output=True)


def failing_test(root: Path, suites: list[str]) -> str | None:
    """Returns the first test of `make test` that fails, or None."""
    result = subprocess.run(
        [*f"{sys.executable} -m pytest -q -x -n 2 --dist loadgroup --tier test --deselect".split(), SELF_TEST, *suites],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    if result.returncode in (0, 5):  # 5: there is nothing for it in these
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+::\S+)", result.stdout, re.MULTILINE)
    if found is None:
        sys.exit(f"pytest ended with {result.returncode}:\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return found.group(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="only faults with one of these in their names")
    words = parser.parse_args().words
    missed = 0
    root = ROOT / "build" / "seeded_faults"
    copy_tree(root)
    build(root)
    for fault in FAULTS:
        if words and not any(word in fault.name for word in words):
            continue
        path = root / fault.path
        original = path.read_text()
        path.write_text(mutated(original, fault.text, fault.replacement))
        build(root)  # also without the fault before
        test = failing_test(root, fault.suites.split()) or failing_test(root, ["tests"])
        print(f"{fault.name}: {test or 'NOT CAUGHT'}", flush=True)
        missed += test is None
        path.write_text(original)
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
