"""GaussianBlur is native only if torch is proved to compute the same bytes; otherwise explain() says why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import parity_recipes
import pytest
import torch
from lowered_transforms import FAMILIES, changed, is_native, problem_of
from torchvision import transforms as T
from torchvision.transforms import _functional_tensor, functional, v2

from fastload import _native
from fastload._process import _forked_cache
from fastload.transforms import _gaussian_blur

pytestmark = pytest.mark.skipif(not parity_recipes.HAS_FAST_BLUR, reason="no AVX2: blurs stay with torch")

CROP, TO_TENSOR = T.RandomResizedCrop(24), T.ToTensor()
KNOWN_FAMILIES = ["v1", *(["v2"] if parity_recipes.HAS_FAST_BLUR_V2 else [])]

both_families = pytest.mark.parametrize("family", KNOWN_FAMILIES)


@pytest.fixture
def no_proofs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clears the remembered proofs before and after a test, which may fake them."""
    monkeypatch.setattr(_forked_cache, "_results", _forked_cache._SharedResults())
    caches: list[Any] = [
        _gaussian_blur._step_with_torch_weights,
        _gaussian_blur.torch_gaussian,
        _gaussian_blur._adds_as_torch,
    ]
    caches += [_gaussian_blur._lanes_of_torch, _gaussian_blur._gaussian_corrections]
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def problem(transform: Any, crop: Any = CROP) -> str:
    return problem_of(transform, [crop], [TO_TENSOR])


@both_families
def test_a_blur_after_a_crop_is_native_in_every_container(family: str) -> None:
    module = FAMILIES[family]
    blur = module.GaussianBlur(5)
    for transform in (
        blur,
        module.RandomApply([blur], 0.5),
        T.RandomApply([module.Compose([blur, module.Pad(2), blur])]),
    ):
        assert is_native(module.Compose([module.CenterCrop(16), transform, TO_TENSOR]))


@both_families
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kernel_size": (3, 4)}, "kernel_size (3, 4); native: odd ints up to 127"),
        ({"kernel_size": (3, 129)}, "kernel_size (3, 129)"),
        ({"kernel_size": (3.0, 3.0)}, "kernel_size (3.0, 3.0)"),
        ({"kernel_size": 3}, "kernel_size 3"),
        ({"sigma": (0.0, 1.0)}, "sigma (0.0, 1.0); native: more than 0, up to 64"),
        ({"sigma": (1e-60, 1.0)}, "sigma (1e-60, 1.0)"),
        ({"sigma": (1.0, 65.0)}, "sigma (1.0, 65.0)"),
        ({"sigma": (2.0, 1.0)}, "two Python numbers, the smaller one first"),
        ({"sigma": (np.float32(1), 2.0)}, "two Python numbers"),
        ({"kernel_size": (49, 1)}, "a kernel of 1 x 49 reaches over more than an image of 24 x 24"),
        ({"kernel_size": (3, 51)}, "a kernel of 51 x 3 reaches over more than an image of 24 x 24"),
    ],
    ids=str,
)
def test_other_arguments_run_in_python(family: str, changes: dict[str, Any], reason: str) -> None:
    assert reason in problem(changed(FAMILIES[family].GaussianBlur(3), **changes))


def test_an_image_of_unknown_size_is_blurred_in_python() -> None:
    for before in ([], [T.Resize(30)], [T.RandomHorizontalFlip()]):
        assert problem_of(T.GaussianBlur(3), before, [TO_TENSOR]) == (
            "the size of its image depends on the file; native: after a CenterCrop, a RandomResizedCrop or a Resize to "
            "height and width"
        )
    assert is_native(T.Compose([T.Resize((30, 20)), T.GaussianBlur(3), TO_TENSOR]))


def test_without_vector_kernels_torch_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLOAD_SIMD", "scalar")
    if _native.has_fast_blur():
        pytest.skip("this processor has the fused instruction everywhere")
    assert problem(T.GaussianBlur(3)) == "torch's is faster without AVX2 or AVX-512"


@pytest.mark.parametrize("name", [name for name in _native.build_info().kernel_tables if name != "scalar"])
def test_it_is_native_with_all_other_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLOAD_SIMD", name)
    assert is_native(T.Compose([CROP, T.GaussianBlur(3), TO_TENSOR]))


@pytest.mark.parametrize(
    ("owner", "name", "transform"),
    [
        (T.GaussianBlur, "forward", T.GaussianBlur(3)),
        (functional, "gaussian_blur", T.GaussianBlur(3)),
        (functional, "pil_to_tensor", T.GaussianBlur(3)),
        (_functional_tensor, "gaussian_blur", T.GaussianBlur(3)),
        (_functional_tensor, "_get_gaussian_kernel1d", T.GaussianBlur(3)),
        (v2.functional, "gaussian_blur", v2.GaussianBlur(3)),
        (v2.functional._misc, "gaussian_blur_image", v2.GaussianBlur(3)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_replaced_functions_are_noticed_after_a_proof(owner: Any, name: str, transform: Any) -> None:
    pipeline = T.Compose([CROP, transform, TO_TENSOR])
    was_native = is_native(pipeline)
    original = getattr(owner, name)
    with mock.patch.object(owner, name, lambda *arguments, **keywords: original(*arguments, **keywords)):
        assert f"{name} of " in problem(transform)
        assert is_native(T.Compose([CROP, TO_TENSOR]))
    assert is_native(pipeline) == was_native


# The bytes that torch computes.


@both_families
@pytest.mark.parametrize("name", ["torch_sums", "torch_blur"])
def test_a_blur_that_differs_in_one_pixel_of_one_image_runs_in_python(family: str, name: str, no_proofs: None) -> None:
    blur = getattr(_gaussian_blur, name)
    shown = []

    def changed(*arguments: Any) -> Any:
        blurred = blur(*arguments).copy()
        shown.append(blurred)
        if len(shown) == _gaussian_blur._PROBED_IMAGES:
            blurred[-1, -1, -1] = np.nextafter(blurred[-1, -1, -1], 0) if name == "torch_sums" else ~blurred[-1, -1, -1]
        return blurred

    with mock.patch.object(_gaussian_blur, name, changed):
        reason = problem(FAMILIES[family].GaussianBlur(3))
    assert reason == f"torch {torch.__version__} adds up pixels in an order that is not known here"


@both_families
def test_a_blur_that_differs_in_one_weight_of_one_sigma_runs_in_python(family: str, no_proofs: None) -> None:
    compute = _native.gaussian_weights

    def changed(*arguments: Any, **keywords: Any) -> Any:
        weights = compute(*arguments, **keywords)
        weights[-1, -1] = np.nextafter(weights[-1, -1], np.float32(1))
        return weights

    with mock.patch.object(_native, "gaussian_weights", changed):
        assert problem(FAMILIES[family].GaussianBlur(3)) == (
            f"torch {torch.__version__} computes its weights in a way that is not known here"
        )


def test_a_proof_is_asked_for_once(no_proofs: None) -> None:
    pipeline = T.Compose([CROP, T.GaussianBlur(3), T.GaussianBlur(3), TO_TENSOR])
    with mock.patch.object(_gaussian_blur, "torch_blur", side_effect=_gaussian_blur.torch_blur) as blur:
        assert is_native(pipeline)
        assert is_native(pipeline)
    assert blur.call_count == _gaussian_blur._PROBED_IMAGES


def test_a_proof_draws_nothing(no_proofs: None) -> None:
    before = torch.get_rng_state()
    numbers = np.random.get_state()[1].tolist()
    assert is_native(T.Compose([CROP, T.GaussianBlur(3), TO_TENSOR]))
    assert torch.equal(torch.get_rng_state(), before)
    assert np.random.get_state()[1].tolist() == numbers


def test_autocast_in_which_torch_convolves_in_another_type_is_seen() -> None:
    pipeline = T.Compose([CROP, T.GaussianBlur(3), TO_TENSOR])
    assert is_native(pipeline)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not is_native(pipeline)
    assert is_native(pipeline)


@pytest.mark.parametrize("kernel_size", [3, 9])
def test_the_proofs_images_do_not_hide_a_difference(kernel_size: int) -> None:
    """Without oneDNN torch adds in another order, and few of the sums round differently."""
    with torch.backends.mkldnn.flags(enabled=False):
        kernel = _gaussian_blur.BlurKernel("v1", kernel_size, kernel_size, float(np.float32(0.1)), 2.0)
        step = _gaussian_blur._step_with_torch_weights(kernel, _gaussian_blur._settings())
        assert step is not None
        pixels = np.random.default_rng(9).integers(0, 256, (60, 70, 3), dtype=np.uint8)
        are_equal = [
            np.array_equal(
                np.rint(_gaussian_blur.native_sums(step, sigma, pixels)),
                _gaussian_blur.torch_blur(kernel, sigma, pixels),
            )
            for sigma in np.linspace(0.1, 2, 30).astype(np.float32).tolist()
        ]
        assert sum(are_equal) > 10
        is_taken = is_native(T.Compose([T.CenterCrop((60, 70)), T.GaussianBlur(kernel_size), TO_TENSOR]))
        assert all(are_equal) or not is_taken
