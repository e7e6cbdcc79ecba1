"""MultiView: several views of an image that is read and decoded once; the same batches as with torch's DataLoader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import parity_recipes
import pytest
import recipes
import torch
from loader_epochs import assert_equal_to_torch
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload
from fastload import MultiView


def crops() -> MultiView:
    """Returns two large views, two small ones, and one whole image, with different sizes and types."""
    small = transforms.Compose([transforms.RandomResizedCrop(24, scale=(0.05, 0.4)), transforms.ToTensor()])
    whole = transforms.Compose([transforms.Resize((16, 20)), transforms.PILToTensor()])
    return MultiView([parity_recipes.one_view(), parity_recipes.one_view(), small, small, whole])


@pytest.mark.parametrize(("num_workers", "persistent_workers"), [(0, False), (1, True), (2, False), (4, True)])
def test_views_equal_torchs(mixed_folder: Path, num_workers: int, persistent_workers: bool) -> None:
    arguments = {"batch_size": 5, "num_workers": num_workers, "persistent_workers": persistent_workers}
    assert_equal_to_torch(ImageFolder(str(mixed_folder), crops()), **arguments)


def test_an_image_is_decoded_once_for_all_views(clean_folder: Path) -> None:
    loader = fastload.DataLoader(ImageFolder(str(clean_folder), crops()), batch_size=22, num_workers=1)
    batches = list(loader)
    assert [tuple(view.shape) for view in batches[0][0]] == [
        (22, 3, 48, 48),
        (22, 3, 48, 48),
        (22, 3, 24, 24),
        (22, 3, 24, 24),
        (22, 3, 16, 20),
    ]
    stats = loader.stats()
    assert stats.samples_native == 22
    assert stats.bytes_read == sum(path.stat().st_size for path in clean_folder.rglob("*.JPEG"))


def test_the_report_tells_the_steps_of_each_view(clean_folder: Path) -> None:
    iterator = iter(fastload.DataLoader(ImageFolder(str(clean_folder), crops()), batch_size=4))
    next(iterator)
    for report in iterator.batch_report():
        assert len(report.views) == 5
        assert report.views[4] == (("resize", 20, 16, "bilinear"),)
        assert report.views[0] != report.views[1]
        assert report.steps == report.views[0]


def test_views_of_one_pipeline_differ_by_the_counter_too(clean_folder: Path) -> None:
    view = parity_recipes.one_view()
    dataset = ImageFolder(str(clean_folder), MultiView([view, view]))

    def run(num_workers: int) -> list[Any]:
        loader = fastload.DataLoader(dataset, batch_size=8, num_workers=num_workers, rng="sample", seed=1)
        return [views for views, _ in loader]

    expected = run(0)
    assert all(not torch.equal(first, second) for first, second in expected)
    for found, wanted in zip(run(3), expected, strict=True):
        assert all(map(torch.equal, found, wanted))


def test_a_view_that_is_not_native_makes_all_of_them_run_in_python(mixed_folder: Path) -> None:
    blurred = transforms.Compose([transforms.Resize((20, 20)), recipes.PythonBlur(3), transforms.ToTensor()])
    dataset = ImageFolder(str(mixed_folder), MultiView([parity_recipes.one_view(), blurred]))
    mine = assert_equal_to_torch(dataset, verdict=None, batch_size=4, num_workers=2)
    assert "PythonBlur" in mine.loader.explain()


class OwnViews(MultiView):
    """A subclass, which could do anything."""

    def __call__(self, image: Any) -> list[Any]:
        return super().__call__(image)[:1]


def test_a_subclass_is_not_taken_for_a_multi_view(clean_folder: Path) -> None:
    dataset = ImageFolder(str(clean_folder), OwnViews([parity_recipes.one_view(), parity_recipes.one_view()]))
    loader = fastload.DataLoader(dataset, batch_size=4)
    assert not loader.explain().startswith("native")
    views, _ = next(iter(loader))
    assert len(views) == 1


def test_no_views_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one transform"):
        MultiView([])
