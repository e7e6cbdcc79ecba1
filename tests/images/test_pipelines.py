"""torchvision's pipelines, called by user code with deferred images: results, draws, and calls left to torchvision."""

from __future__ import annotations

import copy
import functools
import gc
import io
import pickle
import random
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from comparison import assert_same_result, described, is_deferred, native_opener, needs_deferral, outcome
from jpeg_kinds import KINDS
from parity_recipes import MaybeToTensor, Preset, to_rgb
from PIL import Image, ImageFilter
from recipes import MEAN, STD, evaluation, training
from torchvision import transforms as v1
from torchvision.transforms import v2
from torchvision.transforms._presets import ImageClassification

from fastload._images import _pipelines
from fastload._images._gray import mode_of_gray
from fastload.transforms._nodes import expand


class Brightened:
    """A user's transform on images."""

    def __call__(self, image: Image.Image) -> Image.Image:
        return image.point(lambda value: min(255, value + 20))


def _draws(image: Any) -> Any:
    random.random()
    np.random.rand()
    torch.rand(2)
    return image


PIPELINES: dict[str, Callable[[], Any]] = {
    "training": lambda: training(32),
    "evaluation": lambda: evaluation(40, 32),
    "v2 training": lambda: v2.Compose(
        [
            v2.RandomResizedCrop(32),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    ),
    "v2 to image": lambda: v2.Compose([v2.Resize((30, 20)), v2.ToImage()]),
    "uint8": lambda: v1.Compose([v1.RandomCrop(20, padding=4), v1.PILToTensor()]),
    "augmented": lambda: v1.Compose(
        [v1.RandomResizedCrop(32), v1.RandomApply([v1.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8), v1.RandomGrayscale(0.2)]
    ),
    "policies": lambda: v1.Compose([v1.Resize((40, 40)), v1.RandAugment(), v1.TrivialAugmentWide(), v1.ToTensor()]),
    "erasing": lambda: v1.Compose([v1.Resize((32, 32)), v1.ToTensor(), v1.RandomErasing(0.5)]),
    "image at the end": lambda: v1.Compose([v1.RandomCrop(16, pad_if_needed=True), v1.RandomVerticalFlip()]),
    "user's in the middle": lambda: v1.Compose(
        [v1.RandomResizedCrop(32), Brightened(), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)]
    ),
    "user's in front": lambda: v1.Compose([lambda image: image.convert("RGB"), v1.Resize(24), v1.ToTensor()]),
    "user's at the end": lambda: v1.Compose([v1.Resize(24), v1.ToTensor(), lambda tensor: tensor * 2]),
    "draws between": lambda: v1.Compose(
        [v1.RandomResizedCrop(32), _draws, v1.RandomHorizontalFlip(), v1.RandomRotation(20), v1.ToTensor()]
    ),
    "unknown only": lambda: v1.Compose([Brightened(), _draws]),
    "weights' preset": lambda: ImageClassification(crop_size=32, resize_size=40),
    "weights' preset in a pipeline": lambda: v2.Compose(
        [v2.RandomHorizontalFlip(), ImageClassification(crop_size=20, resize_size=20), lambda tensor: tensor * 2]
    ),
    "presets of one's own": lambda: v1.Compose([Preset(v1.Compose([v1.Resize(30), Brightened()])), v1.ToTensor()]),
    "identities": lambda: v1.Compose(
        [torch.nn.Identity(), v1.Lambda(lambda image: image), to_rgb, v1.Resize(24), MaybeToTensor(), MaybeToTensor()]
    ),
    "identities only": lambda: v1.Compose([v2.Identity(), lambda image: image, to_rgb]),
    "nested": lambda: v1.Compose([v1.Compose([v1.Resize(24)]), v1.Compose([v1.ToTensor(), v1.Normalize(MEAN, STD)])]),
    "sequential": lambda: torch.nn.Sequential(v2.Resize(24), v2.CenterCrop(16), v2.ToImage()),
    "single": lambda: v1.RandomResizedCrop(20),
    "random order": lambda: v1.Compose([v1.RandomOrder([v1.Resize(30), v1.RandomCrop(20)]), v1.ToTensor()]),
    "crop too large": lambda: v1.Compose([v1.RandomHorizontalFlip(), v1.RandomCrop(5000), v1.ToTensor()]),
    "ten crop": lambda: v1.Compose(
        [v1.TenCrop(16), v1.Lambda(lambda crops: torch.stack([*map(v1.ToTensor(), crops)]))]
    ),
    "empty": lambda: v1.Compose([]),
    "raises": lambda: v1.Compose([v1.RandomHorizontalFlip(), lambda image: 1 // 0]),
}


def _seed() -> None:
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)


def _states() -> Any:
    return [random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()]  # type: ignore[index]


def _program(make: Callable[[], Any], data: bytes, prepare: Callable[[Any], Any]) -> Any:
    _seed()
    transform = make()
    results = []
    for _ in range(3):
        results.append(outcome(lambda: transform(prepare(Image.open(io.BytesIO(data))))))
    return results, _states()


PREPARED: dict[str, Callable[[Any], Any]] = {
    "converted": lambda image: image.convert("RGB"),
    "opened": lambda image: image,
    "cropped": lambda image: image.convert("RGB").crop((0, 0, (image.width + 1) // 2, image.height)).transpose(1),
    "gray": lambda image: image.convert("L"),
    "gray in three channels": lambda image: image.convert("L").convert("RGB"),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("prepared", PREPARED)
def test_pipeline(name: str, prepared: str) -> None:
    for kind in ("baseline", "420", "gray", "progressive", "cmyk", "broken", "truncated", "one pixel"):
        program = functools.partial(_program, PIPELINES[name], KINDS[kind], PREPARED[prepared])
        assert_same_result(program, (name, kind, prepared))


def _native_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Records the native calls of pipelines."""
    calls: list[Any] = []
    run = _pipelines._Segment.run_natively

    def counted(self: Any, image: Any) -> Any:
        made = run(self, image)
        calls.append(made is not None)
        return made

    monkeypatch.setattr(_pipelines._Segment, "run_natively", counted)
    return calls


def image_of(kind: str = "420") -> Any:
    return Image.open(io.BytesIO(KINDS[kind])).convert("RGB")


@needs_deferral
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("training", [True]),
        ("v2 training", [True]),
        ("nested", [True]),
        ("user's in the middle", [True, True]),
        ("user's in front", [True]),
        ("user's at the end", [True]),
        ("augmented", [True]),
        ("weights' preset", [True]),
        ("weights' preset in a pipeline", [True]),
        ("presets of one's own", [True, True]),
        ("identities", [True]),
        ("identities only", []),
        ("unknown only", []),
    ],
)
def test_which_pipelines_run_natively(name: str, expected: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _native_calls(monkeypatch)
    with native_opener():
        PIPELINES[name]()(image_of())
    assert calls == expected


@needs_deferral
def test_the_result_of_an_image_pipeline_is_pillows() -> None:
    with native_opener():
        result = v1.Compose([v1.Resize(20)])(image_of())
        assert type(result) is Image.Image
        assert is_deferred(result)


def _blurred_behind_crops(tobytes_first: bool) -> list[Any]:
    image = v1.Compose([v1.CenterCrop(30)])(image_of())
    if tobytes_first:
        image.tobytes()
    blurred = image.filter(ImageFilter.GaussianBlur(1.3))
    flipped = blurred.crop((2, 3, 25, 26)).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    gray = flipped.convert("L").point(lambda value: 255 - value)
    image.putpixel((5, 5), (1, 2, 3))
    return [image, blurred, flipped, gray]


@needs_deferral
@pytest.mark.parametrize("tobytes_first", [False, True])
def test_operations_on_the_result_are_remembered(tobytes_first: bool) -> None:
    expected = [described(image) for image in _blurred_behind_crops(tobytes_first)]
    with native_opener():
        image, *derived = _blurred_behind_crops(tobytes_first)
        assert not is_deferred(image)
        assert all(map(is_deferred, derived))
        assert [described(image), *map(described, derived)] == expected


class _Wider(v1.RandomResizedCrop):
    def forward(self, img: Any) -> Any:
        return super().forward(img).resize((40, 20))


class _Sized(Preset):
    def __call__(self, img: Any) -> Any:
        return img.size


def _training() -> Any:
    pipeline = PIPELINES["training"]()
    pipeline.transforms[3].mean = list(MEAN)
    return pipeline


def _of_preset() -> Any:
    return v1.Compose([Preset(v1.Compose([v1.Resize(30), v1.CenterCrop(20), v1.ToTensor()]))])


Patch = pytest.MonkeyPatch


def _global_hook(_: Any, patch: Patch) -> None:
    hooks = torch.nn.modules.module._global_forward_hooks
    patch.setitem(hooks, 10**9, lambda module, given, result: result)  # type: ignore[index]


# The function that makes the pipeline, and a change to it after its first use.
CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any, Patch], Any]]] = {
    "attribute": (_training, lambda p, _: setattr(p.transforms[0], "size", (8, 8))),
    "list attribute": (_training, lambda p, _: p.transforms[3].mean.__setitem__(0, 0.1)),
    "another transform": (_training, lambda p, _: p.transforms.__setitem__(1, v1.RandomHorizontalFlip(1.0))),
    "one more": (_training, lambda p, _: p.transforms.append(lambda tensor: -tensor)),
    "one less": (_training, lambda p, _: p.transforms.pop()),
    "hook": (_training, lambda p, _: p.transforms[3].register_forward_hook(lambda module, given, made: made + 1)),
    "global hook": (_training, _global_hook),
    "own forward": (_training, lambda p, _: setattr(p.transforms[1], "forward", lambda image: image.rotate(5))),
    "own call": (_training, lambda p, patch: patch.setattr(type(p), "__call__", lambda self, image: image.size)),
    "class": (_training, lambda p, _: setattr(p.transforms[0], "__class__", _Wider)),
    "compiled": (_training, lambda p, _: setattr(p.transforms[3], "_compiled_call_impl", lambda *given: given[0] * 3)),
    "preset's pipeline": (_of_preset, lambda p, _: setattr(p.transforms[0], "transforms", PIPELINES["evaluation"]())),
    "preset's call": (_of_preset, lambda _, patch: patch.setattr(Preset, "__call__", lambda self, image: image.size)),
    "preset's class": (_of_preset, lambda p, _: setattr(p.transforms[0], "__class__", _Sized)),
    "weights' crop_size": (PIPELINES["weights' preset"], lambda p, _: p.crop_size.__setitem__(0, 7)),
    "weights' mean": (PIPELINES["weights' preset"], lambda p, _: p.mean.__setitem__(0, 7)),
    "weights' forward": (PIPELINES["weights' preset"], lambda p, _: setattr(p, "forward", lambda img: img.size)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_pipeline_is_seen(change: str) -> None:
    make, action = CHANGES[change]

    def program() -> Any:
        _seed()
        pipeline = make()
        results = [pipeline(image_of())]
        with pytest.MonkeyPatch.context() as patch:
            action(pipeline, patch)
            return described([*results, pipeline(image_of())]), _states()

    assert_same_result(program)


def test_a_pipeline_that_does_nothing_returns_the_image_itself() -> None:
    with native_opener():
        image = image_of()
        assert v1.Compose([v2.Identity(), lambda image: image])(image) is image


def test_a_preset_of_weights_can_be_scripted() -> None:
    """torch.jit reads the source and the globals of its forward."""
    tensor = torch.arange(3 * 50 * 60, dtype=torch.uint8).view(3, 50, 60)
    expected = ImageClassification(crop_size=32, resize_size=40)(tensor)
    with native_opener():
        scripted = torch.jit.script(ImageClassification(crop_size=32, resize_size=40))
    assert torch.equal(scripted(tensor), expected)


def test_nothing_is_kept_on_the_users_objects() -> None:
    with native_opener():
        pipeline = PIPELINES["training"]()
        before = {name: copy.copy(value) for name, value in vars(pipeline).items()}
        pipeline(image_of())
        assert vars(pipeline) == before
        _seed()
        expected = pipeline(image_of())
        for copied in (copy.deepcopy(pipeline), pickle.loads(pickle.dumps(pipeline))):
            _seed()
            assert torch.equal(copied(image_of()), expected)


def test_a_pipeline_that_has_run_is_not_kept() -> None:
    with native_opener():
        pipeline = PIPELINES["training"]()
        pipeline(image_of())
        gone = weakref.ref(pipeline)
        del pipeline
        gc.collect()
        assert gone() is None


def test_a_subclass_of_a_container_is_its_own() -> None:
    class Twice(v1.Compose):
        def __call__(self, image: Any) -> Any:
            return super().__call__(super().__call__(image))

    def program() -> Any:
        return described(Twice([v1.CenterCrop(30), v1.Resize(20)])(image_of()))

    assert_same_result(program)


def test_other_inputs_are_torchvisions() -> None:
    pipeline = v2.Compose([v2.Resize((8, 8)), v2.ToImage()])
    pixels = torch.zeros(3, 20, 20, dtype=torch.uint8)
    with native_opener():
        assert pipeline(pixels).shape == (3, 8, 8)
        image, mask = pipeline(image_of(), Image.new("L", (130, 87)))
        assert image.shape == (3, 8, 8)
        assert mask.shape == (1, 8, 8)
        with pytest.raises(TypeError):
            v1.Compose([])()  # type: ignore[call-arg]


def test_torchvision_is_as_before() -> None:
    before = [v1.Compose.__call__, v2.Compose.forward, ImageClassification.forward]
    with native_opener():
        assert v1.Compose.__call__ is not before[0]
        assert v1.Compose.__call__.__doc__ == before[0].__doc__
    assert [v1.Compose.__call__, v2.Compose.forward, ImageClassification.forward] == before


def test_threads_draw_from_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads, in the role of workers, share a pipeline."""
    from torch.utils.data import DataLoader, Dataset

    import fastload

    class Images(Dataset[Any]):
        transform = PIPELINES["training"]()

        def __len__(self) -> int:
            return 24

        def __getitem__(self, index: int) -> Any:
            kind = ("baseline", "420", "progressive", "broken", "cmyk")[index % 5]
            return self.transform(image_of(kind)), index

    def epoch(loader: type) -> Any:
        torch.manual_seed(3)
        made = loader(Images(), batch_size=4, num_workers=3, shuffle=True)
        return described([list(made) for _ in range(2)]), made

    expected, _ = epoch(DataLoader)
    for options in ({"workers": "processes"}, {"workers": "threads"}):
        actual, loader = epoch(lambda *given, options=options, **named: fastload.DataLoader(*given, **named, **options))
        assert actual == expected
        assert loader.stats().images_opened == 48
        assert 20 < loader.stats().images_native < 48


def test_one_pipeline_in_many_threads() -> None:
    with native_opener(), ThreadPoolExecutor(8) as pool:
        pipeline = PIPELINES["evaluation"]()
        expected = pipeline(image_of())
        barrier = threading.Barrier(8)

        def work(_: int) -> bool:
            barrier.wait()
            return all(torch.equal(pipeline(image_of()), expected) for _ in range(20))

        assert all(pool.map(work, range(8)))


def test_another_default_type_is_torchvisions() -> None:
    def program() -> Any:
        torch.set_default_dtype(torch.float64)
        try:
            _seed()
            return described(PIPELINES["training"]()(image_of())), _states()
        finally:
            torch.set_default_dtype(torch.float32)

    expected = program()
    with native_opener():
        PIPELINES["training"]()(image_of())
        assert program() == expected


GRAY_PIPELINES: dict[str, Callable[[], Any]] = {
    "MNIST": lambda: v1.Compose([v1.ToTensor(), v1.Normalize((0.1307,), (0.3081,))]),
    "v2": lambda: v2.Compose(
        [v2.RandomCrop(20, padding=3), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.2])]
    ),
    "geometry": lambda: v1.Compose(
        [v1.Resize(40), v1.CenterCrop(50), v1.RandomRotation(30, v1.InterpolationMode.BILINEAR, fill=7), v1.Pad(2)]
    ),
    "resized": lambda: v1.Compose([v1.RandomResizedCrop(19), v1.RandomHorizontalFlip(), v1.PILToTensor()]),
    "applied": lambda: v1.Compose([v1.RandomApply([v1.RandomVerticalFlip(1.0)]), v1.ToTensor()]),
    "half": lambda: v1.Compose([v1.PILToTensor(), v1.ConvertImageDtype(torch.float16)]),
    "three channels": lambda: v1.Compose(
        [v1.Resize(40), v1.Grayscale(3), v1.ColorJitter(0.4, 0.4, 0.4, 0.1), v1.ToTensor(), v1.Normalize(MEAN, STD)]
    ),
    "three channels, v2": lambda: v2.Compose(
        [v2.RandomCrop(20), v2.Grayscale(3), v2.ColorJitter(0.4), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    ),
    "three channels of an image": lambda: v1.Compose([v1.Resize(9), v1.Grayscale(3)]),
    "one channel": lambda: v1.Compose([v1.Resize(9), v1.Grayscale(1), v1.ToTensor()]),
    "three channels or one": lambda: v1.Compose([v1.RandomApply([v1.Grayscale(3)]), v1.PILToTensor()]),
    "three means": lambda: v1.Compose([v1.ToTensor(), v1.Normalize(MEAN, STD)]),
    "coloured padding": lambda: v1.Compose([v1.Pad(3, fill=(1, 2, 3)), v1.ToTensor()]),
    "padding with a float": lambda: v1.Compose([v1.Pad(3, fill=7.9), v1.ToTensor()]),
    "colours": lambda: v1.Compose([v1.ColorJitter(0.4, 0.4, 0.4, 0.1), v1.Grayscale(3), v1.ToTensor()]),
    "erased": lambda: v1.Compose([v1.ToTensor(), v1.RandomErasing(1.0, value=(1, 2, 3))]),
    "equalized": lambda: v1.Compose([v1.RandomEqualize(1.0), v1.Resize(9), v1.ToTensor()]),
}


def _gray_array() -> Any:
    return np.random.default_rng(3).integers(0, 256, (28, 31), np.uint8)


GRAY_IMAGES: dict[str, Callable[[], Any]] = {
    "file": lambda: Image.open(io.BytesIO(KINDS["gray"])),
    "converted": lambda: image_of().convert("L"),
    "array": lambda: Image.fromarray(_gray_array()),
    "array of a mode": lambda: Image.fromarray(_gray_array(), "L"),
    "array in parts": lambda: Image.fromarray(_gray_array()[:, ::2]),
    "drawn": lambda: Image.linear_gradient("L"),
}


def _gray_outcome(image: str, pipeline: str) -> Any:
    torch.manual_seed(4)
    results = [outcome(lambda: GRAY_PIPELINES[pipeline]()(GRAY_IMAGES[image]())) for _ in range(3)]
    return results, torch.rand(1)


@pytest.mark.parametrize("pipeline", GRAY_PIPELINES)
@pytest.mark.parametrize("image", GRAY_IMAGES)
def test_gray_images(image: str, pipeline: str) -> None:
    assert_same_result(lambda: _gray_outcome(image, pipeline))


NATIVE_ON_GRAY = {"MNIST", "v2", "geometry", "resized", "applied", "half", "three channels", "three channels, v2"}


@needs_deferral
@pytest.mark.parametrize("pipeline", GRAY_PIPELINES)
def test_which_gray_pipelines_are_native(pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    taken = _pipelines._recipe_of
    monkeypatch.setattr(_pipelines, "_recipe_of", lambda image: calls.append(image.mode) or taken(image))
    becomes = mode_of_gray(expand(GRAY_PIPELINES[pipeline]()))
    if pipeline == "three channels of an image":  # which would be gray like the image before it
        assert becomes == "RGB"
        assert GRAY_PIPELINES[pipeline]()(GRAY_IMAGES["array"]()).mode == "RGB"
        return
    assert (becomes is not None) == (pipeline in NATIVE_ON_GRAY)
    if pipeline in NATIVE_ON_GRAY:
        with native_opener():
            GRAY_PIPELINES[pipeline]()(GRAY_IMAGES["array"]())
        assert calls == ["L"]
