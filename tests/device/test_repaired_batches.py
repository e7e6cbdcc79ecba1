"""Bad samples that are replaced or left out of batches on a device: these are the host's."""

from __future__ import annotations

import pytest
import recipes
from bad_folders import make_bad_folder
from devices import DeviceUnderTest, assert_same, host_batches, loader_on, read_batches
from torchvision import transforms
from torchvision.datasets import ImageFolder

BAD = [(1, "HTML"), (2, "missing"), (9, "truncated"), (13, "too small"), (18, "HTML"), (20, "HTML")]


@pytest.fixture(scope="module")
def bad_folder(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    return make_bad_folder(tmp_path_factory.mktemp("bad"), 22, BAD)


# With one sample a batch nothing would be left of some.
@pytest.mark.parametrize(("batch_size", "on_error"), [(1, "replace"), (4, "replace"), (4, "skip")])
@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("rng", ["torch", "sample"])
def test_batches_with_bad_samples_are_the_hosts(
    device: DeviceUnderTest, bad_folder: ImageFolder, batch_size: int, rng: str, num_workers: int, on_error: str
) -> None:
    crop = [transforms.RandomHorizontalFlip(), transforms.RandomCrop(64)]
    bad_folder.transform = transforms.Compose([*crop, *recipes.training(24).transforms])
    arguments = {
        "batch_size": batch_size,
        "num_workers": num_workers,
        "rng": rng,
        "seed": 2 if rng == "sample" else None,
        "on_error": on_error,
        "max_errors": 1,
    }
    expected = host_batches(bad_folder, 2, **arguments)
    loader = loader_on(device, bad_folder, **arguments)
    assert_same(expected, read_batches(device, (batch for _ in range(2) for batch in loader)))
    stats = loader.stats()
    assert stats.samples_replaced + stats.samples_skipped == 2 * len(BAD)
