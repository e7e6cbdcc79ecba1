"""The steps before the first draw, and the hash that identifies them."""

from __future__ import annotations

from typing import Any

import pytest
from torchvision import transforms

from fastload.transforms._first_steps import NoFirstStepsError, first_steps_of, hash_of, size_after
from fastload.transforms._lowering import lower_transform

RESIZE = transforms.Resize(40)
TO_TENSOR = transforms.ToTensor()


def lowered(*steps: Any) -> Any:
    return lower_transform(transforms.Compose(steps))


def names(*views: Any) -> list[str]:
    return [type(step).__name__ for _, step in first_steps_of(views)]


def test_first_steps_end_before_the_first_draw() -> None:
    crop, flip = transforms.CenterCrop(32), transforms.RandomHorizontalFlip()
    assert names(lowered(RESIZE, crop, TO_TENSOR)) == ["ResizeShorterSide", "CenterCrop"]
    assert names(lowered(RESIZE, flip, crop, TO_TENSOR)) == ["ResizeShorterSide"]
    assert names(lowered(transforms.Grayscale(3), crop, flip, TO_TENSOR)) == ["ApplyOp", "CenterCrop"]


def test_first_steps_are_the_common_prefix_of_all_views() -> None:
    view = lowered(RESIZE, transforms.CenterCrop(32), TO_TENSOR)
    other = lowered(transforms.Resize(40), transforms.RandomCrop(32), TO_TENSOR)
    assert names(view, view) == ["ResizeShorterSide", "CenterCrop"]
    assert names(view, other) == names(other, view) == ["ResizeShorterSide"]


@pytest.mark.parametrize(
    ("views", "why"),
    [
        (
            [lowered(transforms.RandomCrop(32), RESIZE)],
            "this transform's RandomCrop draws before the size of images is",
        ),
        ([lowered(transforms.Grayscale(3), TO_TENSOR)], "this transform does not change the size of images"),
        ([lowered(TO_TENSOR)], "this transform does not change the size of images"),
        ([lowered(print, RESIZE)], "this transform's native part does not change the size of images"),
        (
            [lowered(RESIZE, TO_TENSOR), lowered(transforms.Resize(41), TO_TENSOR)],
            "this transform's ResizeShorterSide is not the same in all views before the size of images is fixed or red",
        ),
    ],
)
def test_there_are_no_first_steps_if_images_keep_their_files_sizes(views: Any, why: str) -> None:
    with pytest.raises(NoFirstStepsError, match="^" + why):
        first_steps_of(views)


def test_the_size_after_first_steps_is_known_if_it_depends_on_no_image() -> None:
    assert size_after(first_steps_of([lowered(RESIZE, transforms.CenterCrop((32, 30)), TO_TENSOR)])) == (32, 30)
    assert size_after(first_steps_of([lowered(RESIZE, transforms.RandomCrop(32), TO_TENSOR)])) is None


def test_the_hash_covers_every_argument_and_the_surroundings() -> None:
    bicubic = transforms.InterpolationMode.BICUBIC
    pipelines = [
        (transforms.Resize(40),),
        (transforms.Resize(41),),
        (transforms.Resize(40, bicubic),),
        (transforms.Resize((40, 40)),),
        (transforms.Resize(40), transforms.CenterCrop(32)),
        (transforms.CenterCrop(32), transforms.Resize(40)),
        (transforms.Resize(40), transforms.Grayscale(3)),
    ]
    hashes = [hash_of(first_steps_of([lowered(*steps)]), "Pillow 12.0.0") for steps in pipelines]
    assert len(set(hashes)) == len(pipelines)
    assert {len(found) for found in hashes} == {16}
    again = hash_of(
        first_steps_of([lowered(transforms.Resize(40), transforms.RandomCrop(9), TO_TENSOR)]), "Pillow 12.0.0"
    )
    assert again == hashes[0]
    assert hash_of(first_steps_of([lowered(transforms.Resize(40))]), "Pillow 13.0.0") != hashes[0]
