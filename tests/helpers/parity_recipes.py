"""The pipelines that people train with, each as its project writes it; what is native of them; small sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import recipes
import torch
import torchvision_shim  # noqa: F401
from torchvision import transforms as v1
from torchvision.transforms import v2
from torchvision.transforms._presets import ImageClassification

import fastload
from fastload import _native

# A blur stays with torch where native code would be slower.
HAS_FAST_BLUR = _native.has_fast_blur()
# Older versions of v2 compute their weights in another way, which is not known natively.
HAS_FAST_BLUR_V2 = HAS_FAST_BLUR and "div(sigma)" in inspect.getsource(v2.functional._misc._get_gaussian_kernel1d)
NORMALIZE = v1.Normalize(recipes.MEAN, recipes.STD)


@dataclass(frozen=True)
class Recipe:
    """A pipeline, and what of it is native.

    Attributes:
        make: makes the transform.
        is_native: whether the whole pipeline is; else its native part, and the rest runs in Python.
    """

    make: Callable[[], Any]
    is_native: bool = True


def resnet() -> Any:
    return v1.Compose([v1.RandomResizedCrop(56), v1.RandomHorizontalFlip(), v1.ToTensor(), NORMALIZE])


def clip() -> Any:
    crop = v1.RandomResizedCrop(48, scale=(0.9, 1.0), interpolation=v1.InterpolationMode.BICUBIC)
    return v1.Compose([crop, v1.ToTensor(), NORMALIZE])


def to_rgb(image: Any) -> Any:
    return image.convert("RGB")


class MaybeToTensor(v1.ToTensor):
    """As DINOv2's; timm's and open_clip's do the same in other words."""

    def __call__(self, pic: Any) -> torch.Tensor:
        if isinstance(pic, torch.Tensor):
            return pic
        return super().__call__(pic)


def open_clip() -> Any:
    """Returns CLIP's transform with open_clip's own function after the crop, and a class that makes tensors."""
    crop = v1.RandomResizedCrop(48, scale=(0.9, 1.0), interpolation=v1.InterpolationMode.BICUBIC)
    return v1.Compose([crop, to_rgb, MaybeToTensor(), NORMALIZE])


class Preset:
    """As the presets of torchvision's references/classification/presets.py."""

    def __init__(self, pipeline: v1.Compose) -> None:
        self.transforms = pipeline

    def __call__(self, img: Any) -> Any:
        return self.transforms(img)


def training_preset() -> Any:
    more = [v2.TrivialAugmentWide(), v2.PILToTensor(), v2.ToDtype(torch.float, scale=True), v2.RandomErasing(0.5)]
    return Preset(v2.Compose([v2.RandomResizedCrop(40), v2.RandomHorizontalFlip(), *more, v2.ToPureTensor()]))


def weights_preset() -> Any:
    """Returns the transform of `weights.transforms()` for small images."""
    return ImageClassification(crop_size=56, resize_size=64, interpolation=v1.InterpolationMode.BICUBIC)


def mae() -> Any:
    crop = v1.RandomResizedCrop(56, scale=(0.2, 1.0), interpolation=v1.InterpolationMode.BICUBIC)
    return v1.Compose([crop, v1.RandomHorizontalFlip(), v1.ToTensor(), NORMALIZE])


def timm_like() -> Any:
    return v1.Compose(
        [
            v1.RandomResizedCrop(48, interpolation=v1.InterpolationMode.BICUBIC),
            v1.RandomHorizontalFlip(),
            v1.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v1.RandAugment(),
            v1.ToTensor(),
            NORMALIZE,
            v1.RandomErasing(0.25),
        ]
    )


def policies() -> Any:
    return v1.Compose([v1.RandomResizedCrop(40), v1.TrivialAugmentWide(), v1.AutoAugment(), v1.ToTensor(), NORMALIZE])


def cifar() -> Any:
    return v1.Compose([v1.RandomCrop(32, padding=4), v1.RandomHorizontalFlip(), v1.ToTensor(), NORMALIZE])


def one_view() -> v1.Compose:
    """Returns the augmentation of SimCLR and MoCo v2 without its blur."""
    return v1.Compose(
        [
            v1.RandomResizedCrop(48, scale=(0.2, 1.0)),
            v1.RandomApply([v1.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            v1.RandomGrayscale(p=0.2),
            v1.RandomHorizontalFlip(),
            v1.ToTensor(),
            NORMALIZE,
        ]
    )


class Views:
    """Several views of one image, as such projects write it themselves."""

    def __init__(self, *transforms: Any) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> list[Any]:
        return [transform(image) for transform in self.transforms]


def own_views() -> Any:
    local = v1.Compose([v1.RandomResizedCrop(24, scale=(0.05, 0.4)), v1.GaussianBlur(5), v1.ToTensor(), NORMALIZE])
    return Views(one_view(), one_view(), local)


def simclr() -> Any:
    """Returns two views with SimCLR's blur: its kernel is a tenth of the image, and every other image gets it."""
    blur = v1.RandomApply([v1.GaussianBlur(5, (0.1, 2.0))], p=0.5)
    *colors, to_tensor, normalize = one_view().transforms
    view = v1.Compose([*colors, blur, to_tensor, normalize])
    return fastload.MultiView([view, view])


def dino() -> Any:
    """Returns two large views, blurred and solarized in different ways, and two small ones; v2."""

    def view(size: int, scale: tuple[float, float], *more: Any) -> Any:
        jitter = v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
        crop = v2.RandomResizedCrop(size, scale=scale, interpolation=v2.InterpolationMode.BICUBIC)
        colors = [v2.RandomHorizontalFlip(), jitter, v2.RandomGrayscale(p=0.2), *more]
        return v2.Compose([crop, *colors, v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)])

    def blur(probability: float) -> Any:
        return v2.RandomApply([v2.GaussianBlur(9, (0.1, 2.0))], p=probability)

    return fastload.MultiView(
        [
            view(48, (0.4, 1.0), blur(1.0)),
            view(48, (0.4, 1.0), blur(0.1), v2.RandomSolarize(170, p=0.2)),
            *[view(24, (0.05, 0.4), blur(0.5))] * 2,
        ]
    )


def v2_training() -> Any:
    return v2.Compose(
        [
            v2.RandomResizedCrop(56, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(recipes.MEAN, recipes.STD),
        ]
    )


def v2_evaluation() -> Any:
    return v2.Compose(
        [
            v2.Resize(64, antialias=True),
            v2.CenterCrop(56),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(recipes.MEAN, recipes.STD),
        ]
    )


RECIPES = {
    "resnet": Recipe(resnet),
    "evaluation": Recipe(lambda: recipes.evaluation(64, 56)),
    "clip": Recipe(clip),
    "open_clip": Recipe(open_clip),
    "mae": Recipe(mae),
    "timm": Recipe(timm_like),
    "policies": Recipe(policies),
    "cifar": Recipe(cifar),
    "own views": Recipe(own_views, is_native=False),
    "simclr": Recipe(simclr, is_native=HAS_FAST_BLUR),
    "dino": Recipe(dino, is_native=HAS_FAST_BLUR_V2),
    "v2 training": Recipe(v2_training),
    "v2 evaluation": Recipe(v2_evaluation),
    "training preset": Recipe(training_preset),
    "weights preset": Recipe(weights_preset),
}
