"""decode_image() and pil_loader() against Pillow and torchvision's pil_loader on the same file."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpora_files import manifest_rows
from gil import runs_beside
from image_folders import make_mixed_folder, save_jpeg, synthetic_image
from PIL import Image
from torchvision import transforms
from torchvision.datasets import ImageFolder, folder

import fastload
from fastload import _native
from fastload._pillow import _decode_image, _pillow


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_mixed_folder(tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="module")
def large_jpeg(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("large") / "large.jpg"
    save_jpeg(path, 3, 2400, 1600)
    return path.read_bytes()


@pytest.fixture
def no_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: object) -> None:
        raise AssertionError(f"{source!r} was left to Pillow")

    monkeypatch.setattr(_pillow, "open_rgb", fail)
    monkeypatch.setattr(_pillow, "open_rgb_bytes", fail)


def outcome(load: Callable[[], Any]) -> Any:
    """Returns the result of `load`, or the type and text of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return load()
        except Exception as error:  # noqa: BLE001 - whatever Pillow raises is the reference
            return type(error), str(error)


def check_file(path: Path) -> None:
    expected = outcome(lambda: folder.pil_loader(str(path)))
    got = outcome(lambda: fastload.pil_loader(str(path)))
    if isinstance(expected, tuple):
        assert got == expected
        assert outcome(lambda: fastload.decode_image(path, output="numpy")) == expected
        assert outcome(lambda: fastload.decode_image(path.read_bytes()))[0] is expected[0]
        return
    assert (got.mode, got.size, got.info) == ("RGB", expected.size, expected.info)
    pixels = np.array(expected)
    assert np.array_equal(np.array(got), pixels)
    for source in (path, path.read_bytes()):
        assert np.array_equal(fastload.decode_image(source, output="numpy"), pixels)
        assert np.array_equal(fastload.decode_image(source).permute(1, 2, 0).numpy(), pixels)
    from_bytes = fastload.decode_image(path.read_bytes(), output="pil")
    assert from_bytes.info == Image.open(io.BytesIO(path.read_bytes())).convert("RGB").info


def test_files_of_every_kind_are_as_pillow_makes_them(mixed: Path) -> None:
    paths = sorted(path for path in mixed.rglob("*") if path.is_file())
    assert len(paths) > 12
    for path in paths:
        check_file(path)


@pytest.mark.slow
@pytest.mark.usefixtures("corpora")
def test_every_corpus_file_is_as_pillow_makes_it() -> None:
    paths = [row.path for row in manifest_rows()]
    assert len(paths) > 800
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own, about odd files
        for path in paths:
            try:
                check_file(path)
            except Exception as error:
                raise AssertionError(f"{path}: {error}") from error


def test_exif_and_profile_come_along(tmp_path: Path) -> None:
    image = synthetic_image(1, 40, 30)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=exif, icc_profile=b"profile", dpi=(72, 72), comment=b"words")
    loaded = fastload.pil_loader(str(tmp_path / "a.jpg"))
    assert loaded.getexif()[0x0112] == 6
    assert loaded.info == folder.pil_loader(str(tmp_path / "a.jpg")).info
    assert {"exif", "icc_profile", "dpi", "comment"} <= loaded.info.keys()


@pytest.mark.usefixtures("no_pillow")
@pytest.mark.parametrize(
    "kind", [str, Path, lambda path: path.read_bytes(), lambda path: bytearray(path.read_bytes()),
             lambda path: memoryview(path.read_bytes())[:]]
)  # fmt: skip
def test_a_clean_jpeg_is_decoded_natively_from_any_source(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    path = tmp_path / "a.jpg"
    save_jpeg(path, 1, 57, 43)
    pixels = np.array(Image.open(path))
    tensor = fastload.decode_image(kind(path))
    assert (tensor.dtype, tensor.shape) == (torch.uint8, (3, 43, 57))
    assert tensor.is_contiguous()
    array = fastload.decode_image(kind(path), output="numpy")
    assert (array.dtype, array.shape) == (np.uint8, (43, 57, 3))
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert np.array_equal(array, pixels)
    assert np.array_equal(tensor.permute(1, 2, 0).numpy(), pixels)
    assert np.array_equal(np.array(fastload.decode_image(kind(path), output="pil")), pixels)


def test_a_pillow_without_libjpeg_turbo_decodes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_jpeg(tmp_path / "a.jpg", 1, 57, 43)
    monkeypatch.setattr(_pillow, "native_jpeg_is_exact", lambda: _pillow.Exactness(False, "another library"))
    monkeypatch.setattr(_native, "SampleDecoder", None)
    assert np.array_equal(
        fastload.decode_image(tmp_path / "a.jpg", output="numpy"), np.array(Image.open(tmp_path / "a.jpg"))
    )


def test_pillows_pixel_limit_holds_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jpg"
    save_jpeg(path, 1, 60, 40)
    assert fastload.decode_image(path).shape == (3, 40, 60)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1500)
    with pytest.warns(Image.DecompressionBombWarning):
        assert fastload.decode_image(path).shape == (3, 40, 60)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(Image.DecompressionBombError):
        fastload.decode_image(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert fastload.decode_image(path).shape == (3, 40, 60)


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="output must be one of 'tensor', 'numpy', 'pil', got 'jax'"):
        fastload.decode_image(b"", output="jax")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"source must be a path \(str, PathLike\) or bytes, got int"):
        fastload.decode_image(3)  # type: ignore[call-overload]
    with pytest.raises(FileNotFoundError):
        fastload.decode_image(tmp_path / "none.jpg")
    save_jpeg(tmp_path / "a.jpg", 1, 8, 8)
    with pytest.raises(ValueError, match="null"):
        fastload.decode_image(f"{tmp_path}/a.jpg\0b")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        fastload.pil_loader(str(tmp_path / "fifo"))


def test_threads_decode_at_the_same_time(mixed: Path) -> None:
    paths = sorted(path for path in mixed.rglob("*") if path.is_file())
    expected = {path: np.array(folder.pil_loader(str(path))) for path in paths}

    def check(path: Path) -> bool:
        return np.array_equal(fastload.decode_image(path, output="numpy"), expected[path])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, paths * 20))


@pytest.mark.usefixtures("no_thread_switches", "no_pillow")
def test_decoding_lets_other_threads_run(large_jpeg: bytes) -> None:
    assert runs_beside(lambda: fastload.decode_image(large_jpeg, output="numpy"))


@pytest.mark.usefixtures("no_thread_switches")
def test_a_decoder_that_is_at_work_refuses_a_second_call(large_jpeg: bytes) -> None:
    decoder = _native.SampleDecoder(max_file_bytes=1 << 20, max_pixels=1 << 30, native_jpeg=True)
    plan, draws = _decode_image.whole_image(is_planar=False), _decode_image.no_draws()

    def decode() -> None:
        assert isinstance(decoder.run_bytes(large_jpeg, plan, draws), np.ndarray)

    with pytest.raises(RuntimeError, match="at work in another thread"):
        runs_beside(decode, decode)
    decode()


def test_pil_loader_takes_torchvisions_place(mixed: Path) -> None:
    transform = transforms.Compose([transforms.Resize((24, 24)), transforms.ToTensor()])
    theirs = ImageFolder(str(mixed), transform)
    ours = ImageFolder(str(mixed), transform, loader=fastload.pil_loader)
    for (image, label), (expected_image, expected_label) in zip(ours, theirs, strict=True):
        assert torch.equal(image, expected_image)
        assert label == expected_label
