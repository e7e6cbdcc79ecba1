"""examples/cuda_op_in_dataset.py: as far as it goes without a GPU, and on one."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import fastload


@pytest.mark.smoke
def test_without_a_gpu_it_says_what_it_needs(run_example: Any) -> None:
    without = {"CUDA_VISIBLE_DEVICES": ""}
    assert run_example("cuda_op_in_dataset.py", env=without).stdout == "this example needs a GPU, or --device cpu\n"


def average_of(output: str) -> float:
    found = re.search(r"^(0\.\d{5}) on average, \d+\.\d\d s$", output, re.MULTILINE)
    assert found is not None, output
    return float(found[1])


def test_on_the_cpu_its_threads_compute_the_distances(run_example: Any) -> None:
    # 2048 points in a unit cube: about 0.55 / 2048^(1/3) to the nearest, and more at its faces.
    assert 0.043 < average_of(run_example("cuda_op_in_dataset.py", "--device=cpu", "--shapes=8").stdout) < 0.055


@pytest.mark.gpu
def test_on_a_gpu_its_threads_compute_the_distances(run_example: Any) -> None:
    assert 0.043 < average_of(run_example("cuda_op_in_dataset.py", "--shapes=64", warm=False).stdout) < 0.055


def test_a_batch_has_for_each_point_the_distance_to_its_shape(load_example: Any) -> None:
    dataset = load_example("cuda_op_in_dataset.py").PointDistances(4, "cpu")
    (points, distances), *others = fastload.DataLoader(dataset, 2, num_workers=2)
    assert len(others) == 1
    assert (points.shape, distances.shape) == ((2, 4096, 3), (2, 4096))
    for number in range(2):
        steps = points[number, :50, None] - dataset.shapes[number]
        expected = steps.square().sum(2).sqrt().amin(1)  # roots of sums that may be small
        torch.testing.assert_close(distances[number, :50], expected, rtol=0, atol=1e-4)
