"""Ray Train: a run that was killed goes on with another number of workers, and with the same images."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from children import RunChild
from framework_recipes import NUM_IMAGES, digest

import fastload


def test_one_worker_goes_on_where_two_were_killed(folder: Path, tmp_path: Path, run_child: RunChild) -> None:
    pytest.importorskip("ray", reason="make test-ray installs it")
    import ray_training as job

    # Ray writes a token into the home folder.
    environment = {"HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"}
    code = f"import ray_training\nray_training.main({str(folder)!r}, {str(tmp_path)!r})"
    run_child(code, timeout=600, env=environment)

    def samples(name: str) -> list[list[list[object]]]:
        return [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]

    expected = []
    dataset = job.make_dataset({"images": str(folder)})
    for epoch in range(job.EPOCHS):
        sampler = fastload.ShardedSampler(NUM_IMAGES, num_replicas=1, rank=0, seed=1)
        sampler.set_epoch(epoch)
        loader = fastload.DataLoader(dataset, job.GLOBAL_BATCH_SIZE, sampler=sampler, rng="sample", seed=1)
        loader.set_epoch(epoch)
        expected += [[[int(i), digest(image)] for image, i in zip(*batch, strict=True)] for batch in loader]
    before = samples("2-0"), samples("2-1")
    assert len(before[0]) == len(before[1]) == job.STEPS_BEFORE_THE_KILL
    # Two ranks take every second sample of a global batch.
    whole = [[sample for pair in zip(*step, strict=True) for sample in pair] for step in zip(*before, strict=True)]
    assert whole + samples("1-0") == expected
