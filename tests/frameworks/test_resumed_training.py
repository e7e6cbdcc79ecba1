"""A run that a framework resumes has the batches of one that was never stopped."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from children import RunChild
from resumed_training import BATCHES, EPOCHS, WAYS

# After the first batch, before and after the last one of an epoch, and in the next epoch.
STEPS = [1, BATCHES - 1, BATCHES, BATCHES + 1]


def needed(title: str) -> list[str]:
    """Returns the packages that a recipe imports."""
    name = next(name for name in ("lightning", "accelerate", "trainer") if name in title.lower())
    return [{"trainer": "transformers"}.get(name, name), *(["torchdata"] if "prepared" in title else [])]


def is_known_to_differ(title: str, num_workers: int) -> bool:
    """Returns whether results differ: Accelerate fetches a batch ahead, which without workers draws in the program."""
    return "prepared" in title and num_workers == 0


@pytest.mark.parametrize("num_workers", [2, 0])
@pytest.mark.parametrize("kind", ["images", "in Python"])
@pytest.mark.parametrize("title", WAYS)
def test_a_resumed_run_has_the_batches_of_a_whole_one(
    title: str, kind: str, num_workers: int, folder: Path, tmp_path: Path, run_child: RunChild
) -> None:
    if is_known_to_differ(title, num_workers):
        pytest.skip("the document asks for workers")
    for name in needed(title):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    # Lightning writes one at the end of an epoch, too.
    ends = {"end 0": BATCHES} if "Lightning" in title else {}
    places = {**{str(step): step for step in STEPS}, **ends}
    arguments = (title, kind, num_workers, str(folder), str(tmp_path), list(places))
    run_child(f"import resumed_training\nresumed_training.run_all(*{arguments!r})", timeout=150, warm=True)

    def batches(name: str) -> list[str]:
        return json.loads((tmp_path / f"{name}.json").read_text())

    whole = batches("None")
    assert len(set(whole)) == len(whole) == BATCHES * EPOCHS
    for name, step in places.items():
        assert batches(name) == whole[step:], name
