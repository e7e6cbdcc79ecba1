"""The cut of a pipeline into native part and Python part, the data that passes between them, and explain()'s rows."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from lowered_transforms import (
    FAMILIES,
    MEAN,
    STD,
    assert_runs_as_torchvision,
    is_native,
    lowered,
    problem_of,
    random_image,
)
from torchvision import transforms as T
from torchvision import tv_tensors
from torchvision.transforms import v2

from fastload import _core
from fastload._planning._verdicts import transform_verdicts
from fastload.transforms._lowering import lower_transform
from fastload.transforms._stage import RunsInPythonError
from fastload.transforms._tensor_part import SampleForm


def kinds(transform: Any) -> list[tuple[str, int]]:
    return kinds_of(lowered(transform).steps)


def kinds_of(steps: Iterable[tuple[int, _core.Step]]) -> list[tuple[str, int]]:
    return [(type(step).__name__, position) for position, step in steps]


def test_v2_passes_tensors_on_and_v1_raises() -> None:
    before = [T.CenterCrop(9), T.ToTensor()]
    pipeline = T.Compose([*before, v2.ToImage(), v2.PILToTensor(), v2.Normalize(MEAN, STD)])
    assert is_native(pipeline)
    (made,) = assert_runs_as_torchvision(pipeline, random_image(30, 20))
    assert type(made) is tv_tensors.Image
    assert problem_of(T.ToTensor(), before, []).startswith("the tensor part raises TypeError")


@pytest.mark.parametrize("make", [T.ToTensor, v2.ToImage])
def test_steps_that_keep_elements_may_follow_an_erasing(make: Any) -> None:
    erasing = v2.RandomErasing(1.0, value=[0.5, 300.0, -1.0])
    kept = [torch.nn.Identity(), v2.Identity(), v2.ToImage(), lambda image: image, v2.ToPureTensor()]
    pipeline = T.Compose([T.CenterCrop(30), make(), v2.ToDtype(torch.float32), erasing, *kept])
    assert is_native(pipeline)
    (made,) = assert_runs_as_torchvision(pipeline, random_image(50, 40))
    assert type(made) is torch.Tensor


FLIP, WARP = T.RandomHorizontalFlip(), T.RandomPerspective()


@pytest.mark.parametrize("transform", [None, T.Compose([]), T.CenterCrop(8), v2.Compose([FLIP]), torch.nn.Sequential()])
def test_a_pipeline_that_ends_with_images_hands_them_over(transform: Any) -> None:
    result = lowered(transform)
    assert (result.python_part, result.form) == ((), SampleForm(torch.uint8, None, "pil"))
    assert is_native(transform)


def test_containers_are_flattened_and_positions_count_through() -> None:
    transform = v2.Compose(
        [
            T.Compose([]),
            T.Resize(9),
            torch.nn.Sequential(T.RandomHorizontalFlip(), v2.Compose([T.CenterCrop(8)])),
            T.Compose((v2.Compose((v2.RandomVerticalFlip(),)),)),
            T.Compose([T.ToTensor()]),
        ]
    )
    assert kinds(transform) == [
        ("ResizeShorterSide", 0),
        ("RandomHorizontalFlip", 1),
        ("CenterCrop", 2),
        ("RandomVerticalFlip", 3),
    ]
    assert [stage.name for stage in lowered(transform).stages] == [
        *("Resize", "RandomHorizontalFlip", "CenterCrop", "v2.RandomVerticalFlip", "ToTensor"),
    ]


def test_a_container_is_cut_inside_and_the_python_part_is_flat() -> None:
    normalize = T.Normalize(MEAN, STD)
    transform = T.Compose([v2.Compose([FLIP, torch.nn.Sequential(WARP, FLIP)]), T.Compose([T.ToTensor(), normalize])])
    result = lowered(transform)
    assert kinds_of(result.steps) == [("RandomHorizontalFlip", 0)]
    assert result.python_part[:2] == (WARP, FLIP)
    assert result.python_part[3] is normalize


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("hold", [list, tuple, torch.nn.ModuleList, lambda held: [T.Compose(held)]])
def test_a_random_apply_draws_and_holds_steps_as_in_torchvision(family: str, hold: Any) -> None:
    namespace = FAMILIES[family]
    inner = v2.RandomApply([T.CenterCrop(9), T.RandAugment()], p=0.5)
    held = [namespace.RandomCrop(9, padding=1), namespace.RandomGrayscale(0.25), inner]
    transform = T.Compose([FLIP, namespace.RandomApply(hold(held), p=0.4), T.RandomVerticalFlip()])
    assert is_native(transform)
    assert_runs_as_torchvision(transform, random_image(12, 10), num_runs=50)


@pytest.mark.parametrize("container", [T.Compose, v2.Compose, T.RandomApply])
def test_a_container_that_contains_itself_is_refused(container: Any) -> None:
    transform = container([T.CenterCrop(8)])
    transform.transforms.append(transform)
    with pytest.raises(RunsInPythonError, match="a container of transforms contains itself"):
        lower_transform(transform)


def test_each_stage_has_a_verdict() -> None:
    apply = T.RandomApply([T.ColorJitter(0.1), T.Compose([v2.RandomInvert()])])
    warp = v2.RandomApply([v2.RandomPerspective()])
    result = lowered(T.Compose([T.CenterCrop(8), apply, warp, T.ToTensor(), WARP]))
    native_list = (
        "AutoAugment, CenterCrop, ColorJitter, ConvertImageDtype, GaussianBlur, Grayscale, ImageClassification, "
        "Normalize, PILToTensor, Pad, RandAugment, RandomAdjustSharpness, RandomApply, RandomAutocontrast, "
        "RandomCrop, RandomEqualize, RandomErasing, RandomGrayscale, RandomHorizontalFlip, RandomInvert, "
        "RandomPosterize, RandomResizedCrop, RandomRotation, RandomSolarize, RandomVerticalFlip, Resize, ToTensor, "
        "TrivialAugmentWide, v2.Identity, v2.RGB, v2.ToDtype, v2.ToImage, v2.ToPureTensor"
    )
    assert [str(verdict) for verdict in transform_verdicts(result, "")] == [
        "transform  1 of 8, CenterCrop: native",
        "transform  2 of 8, RandomApply: native",
        "transform  3 of 8, ColorJitter in RandomApply: native",
        "transform  4 of 8, v2.RandomInvert in RandomApply: native",
        "transform  5 of 8, v2.RandomApply: runs in Python from here on "
        f"(it holds v2.RandomPerspective: not native yet; native: {native_list})",
        "transform  6 of 8, v2.RandomPerspective in v2.RandomApply: in Python, after position 5",
        "transform  7 of 8, ToTensor: in Python, after position 5",
        "transform  8 of 8, RandomPerspective: in Python, after position 5",
    ]


def test_explain_says_what_runs_natively_after_the_cut_if_calls_are_native() -> None:
    result = lowered(T.Compose([FLIP, len, T.RandomApply([T.CenterCrop(8)]), T.ToTensor(), WARP, T.Normalize(0, 1)]))
    rows = [str(verdict) for verdict in transform_verdicts(result, "", calls_are_native=True)]
    natively = "natively, when Python calls it with an image"
    assert rows[2:5] == [
        f"transform  3 of 7, RandomApply: {natively}",
        f"transform  4 of 7, CenterCrop in RandomApply: {natively}",
        f"transform  5 of 7, ToTensor: {natively}",
    ]
    assert rows[6] == "transform  7 of 7, Normalize: in Python, after position 2"
    rows = [str(verdict) for verdict in transform_verdicts(result, "")]
    assert all(": in Python, after position " in row for row in rows[2:])


def test_a_transform_that_gets_a_tensor_is_not_called_native() -> None:
    result = lowered(T.Compose([T.ToTensor(), T.CenterCrop(8), T.Normalize(0, 1), FLIP, len, FLIP]))
    rows = [str(verdict) for verdict in transform_verdicts(result, "", calls_are_native=True)]
    assert rows[1] == (
        "transform  2 of 6, CenterCrop: runs in Python from here on "
        "(not native on tensors; native: before PILToTensor, ToTensor or v2.ToImage)"
    )
    assert rows[3] == "transform  4 of 6, RandomHorizontalFlip: in Python, after position 2"
    assert rows[5] == "transform  6 of 6, RandomHorizontalFlip: natively, when Python calls it with an image"


def test_the_first_transform_can_be_the_cut() -> None:
    assert problem_of(WARP, [], [T.ToTensor()]).startswith("not native yet; native: ")
    assert [str(verdict) for verdict in transform_verdicts(lowered(len), "")] == [
        "transform  1 of 1, builtin_function_or_method: runs in Python from here on (it is code of your own)"
    ]


def test_lowering_twice_gives_equal_results_and_draws_nothing() -> None:
    transform = v2.Compose(
        [T.RandomResizedCrop(9), T.RandomHorizontalFlip(), T.RandAugment(), T.ToTensor(), T.RandomErasing(), len]
    )
    state = torch.get_rng_state()
    first = lowered(transform)
    assert first == lowered(transform) == lowered(T.Compose(copy.deepcopy(transform.transforms)))
    assert torch.equal(state, torch.get_rng_state())
    transform.transforms[1].p = 0.25
    assert first != lowered(transform)
    transform.transforms[1].p = 0.5
    transform.transforms[5] = abs
    assert first != lowered(transform)


def test_lowering_again_at_each_epoch_is_cheap() -> None:
    transform = T.Compose(
        [
            T.RandomResizedCrop(224),
            T.RandomHorizontalFlip(),
            T.TrivialAugmentWide(),
            T.ToTensor(),
            T.Normalize(MEAN, STD),
        ]
    )
    lowered(transform)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        lower_transform(transform)
        seconds.append(time.perf_counter() - start)
    # It takes about 0.7 ms; a newly made list of operations would take more than ten times that.
    assert min(seconds) < 7e-3
