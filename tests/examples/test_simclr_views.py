"""examples/simclr_views.py: the class that projects have and MultiView give equal bytes, by different work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.mark.smoke
def test_all_loaders_give_equal_batches_and_only_multi_view_is_native_as_a_whole(
    run_example: Any, image_folder: Path
) -> None:
    output = run_example("simclr_views.py", image_folder, "--size=32", "--batch-size=10").stdout
    head, *rows = output.splitlines()
    assert head.split("  ")[0] == "loader"
    assert [row.split()[:-1] for row in rows] == [
        ["torch,", "TwoCrops", "3", "of", "3", "0%"],
        ["fastload,", "TwoCrops", "3", "of", "3", "0%"],
        ["fastload,", "MultiView", "3", "of", "3", "100%"],
    ]


def test_a_batch_that_differs_in_one_place_is_not_counted(load_example: Any) -> None:
    count_equal = load_example("simclr_views.py").count_equal
    batches = [[[torch.zeros(2, 3), torch.ones(2, 3)], torch.arange(2)] for _ in range(3)]
    assert count_equal(batches, batches) == 3
    for place in (batches[0][0][0], batches[1][0][1], batches[2][1]):
        theirs = [[[*map(torch.clone, views)], labels.clone()] for views, labels in batches]
        place.view(-1)[-1] += 1
        assert count_equal(batches, theirs) == 2
        place.view(-1)[-1] -= 1
