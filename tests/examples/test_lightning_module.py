"""examples/lightning_module.py: Lightning trains on native batches, and has every loss of torch's loader."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import RunChild


def test_every_loss_is_that_of_torchs_loader(run_child: RunChild, tinted_folder: Path) -> None:
    pytest.importorskip("lightning", reason="needs lightning, see tests/requirements.txt")
    words = ["lightning_module.py", str(tinted_folder / "train"), "--batch-size=16", "--workers=2"]
    # In one process: the import of Lightning takes longer than all the rest.
    runs = [f"example_runner.run(*{[*words, f'--loader={loader}']})" for loader in ("torch", "fastload")]
    code = "\n".join(["import example_runner", *runs])
    lines = run_child(code, timeout=150, warm=True).stdout.splitlines()
    theirs, mine, told = lines[:6], lines[6:12], lines[12:]
    assert mine == theirs
    assert told == ["native: 96 of 96 images"]
    assert len(set(theirs)) == 6
    assert [line.partition(": loss ")[0] for line in theirs] == [
        f"epoch {epoch}, step {step}" for epoch in range(2) for step in range(3)
    ]
