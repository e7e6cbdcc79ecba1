"""Which operations are remembered, when pixels are made, and by what."""

from __future__ import annotations

import gc
import inspect
import io
import os
import pydoc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison import IS_DEFERRING, assert_same_result, is_deferred, native_opener, needs_deferral, outcome
from image_folders import save_jpeg
from jpeg_kinds import KINDS
from PIL import Image, JpegImagePlugin

import fastload
from fastload._images import _opener, _tally


def opened(kind: str = "baseline") -> Any:
    return Image.open(io.BytesIO(KINDS[kind]))


@needs_deferral
@pytest.mark.parametrize("kind", ["baseline", "420", "gray", "progressive", "restart", "rotated", "one pixel"])
def test_steps_are_remembered(kind: str) -> None:
    expected = opened(kind).convert("RGB").crop((0, 0, 1, 1)).resize((7, 9)).transpose(2).convert("L").copy()
    with native_opener():
        image = opened(kind)
        assert not is_deferred(image)
        converted = image.convert("RGB")
        last = converted.crop((0, 0, 1, 1)).resize((7, 9)).transpose(2).convert("L").copy()
        assert is_deferred(image)
        assert is_deferred(converted)
        assert is_deferred(last)
        assert last.tobytes() == expected.tobytes()
        assert last.im is not None
        assert not is_deferred(last)
        assert is_deferred(converted)
        assert last == expected


@pytest.mark.parametrize("kind", ["cmyk", "truncated", "no end", "broken"])
def test_files_that_are_not_clean_are_pillows(kind: str) -> None:
    with native_opener():
        image = opened(kind)
        tally = _tally.process_state.tally
        before = sum(tally.image_fallback_reasons.values())
        try:
            image.convert("RGB").tobytes()
        except OSError:
            assert kind in ("truncated", "no end")
        assert sum(tally.image_fallback_reasons.values()) == before + 1


def test_it_is_a_genuine_image() -> None:
    with native_opener():
        image = opened().convert("RGB")
        assert type(image) is Image.Image
        assert type(opened()) is JpegImagePlugin.JpegImageFile
        assert vars(image).keys() == vars(Image.new("RGB", (1, 1))).keys()
        assert not image.readonly


def test_images_are_deferred_since_pillow_11() -> None:
    with native_opener():
        assert _opener._opener.methods.is_deferring == IS_DEFERRING
        assert is_deferred(opened().convert("RGB")) == IS_DEFERRING
        taken = _tally.process_state.tally.images_native
        opened().convert("RGB").tobytes()
        assert _tally.process_state.tally.images_native == taken + 1


@needs_deferral
def test_load_is_remembered() -> None:
    with native_opener():
        image = opened()
        access = image.load()
        assert is_deferred(image)
        assert access[3, 4] == opened().convert("RGB").getpixel((3, 4))
        assert not is_deferred(image)


@needs_deferral
def test_many_crops_decode_the_whole_once() -> None:
    with native_opener():
        image = opened("420").convert("RGB")
        expected = np.asarray(Image.open(io.BytesIO(KINDS["420"])).convert("RGB")).copy()
        crops = [image.crop((left, 3, left + 20, 40)) for left in (0, 30, 60, 100)]
        source = vars(image)["_im"].recipe[0]
        for left, crop in zip((0, 30, 60, 100), crops, strict=True):
            assert np.array_equal(np.asarray(crop), expected[3:40, left : left + 20])
        assert source._contents is None
        assert source._whole.shape == expected.shape


@needs_deferral
def test_memory_is_released() -> None:
    gc.disable()
    try:
        with native_opener():
            image = opened().convert("RGB").crop((0, 0, 9, 9))
            deferred = vars(image)["_im"]
            source = weakref.ref(deferred.recipe[0])
            assert source() is not None
            image.load()[0, 0]
            assert source() is None
            image = opened().convert("RGB")
            source = weakref.ref(vars(image)["_im"].recipe[0])
            del image, deferred
            assert source() is None
    finally:
        gc.enable()


@needs_deferral
def test_deferred_images_outlive_the_opener() -> None:
    with native_opener():
        unloaded, image, access = opened(), opened().convert("RGB"), opened().load()
    assert is_deferred(image)
    expected = opened().convert("RGB")
    assert image == expected
    assert image.resize((5, 5)) == expected.resize((5, 5))
    assert access[0, 0] == expected.getpixel((0, 0))
    assert unloaded.convert("RGB") == expected


@needs_deferral
def test_pillow_is_as_before() -> None:
    methods = ("load", "convert", "crop", "resize", "transpose", "copy", "tobytes", "filter", "point")
    names = [(Image.Image, name) for name in methods]
    before = [vars(owner)[name] for owner, name in names]
    opener = Image.OPEN["JPEG"]
    with native_opener():
        fastload.register_opener()
        assert all(vars(owner)[name] is not old for (owner, name), old in zip(names, before, strict=True))
    assert [vars(owner)[name] for owner, name in names] == before
    assert Image.OPEN["JPEG"] == opener
    fastload.unregister_opener()


def test_a_foreign_opener_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def theirs(file: Any, filename: Any = None) -> Any:
        asked.append(filename)
        return JpegImagePlugin.jpeg_factory(file, filename)

    accept = Image.OPEN["JPEG"][1]
    monkeypatch.setitem(Image.OPEN, "JPEG", (theirs, accept))
    with pytest.raises(RuntimeError, match="theirs, which was registered"):
        fastload.register_opener()
    monkeypatch.undo()
    with native_opener():
        Image.register_open("JPEG", theirs, accept)
        assert not is_deferred(opened().convert("RGB"))
    assert Image.OPEN["JPEG"][0] is theirs
    assert len(asked) == 1
    Image.register_open("JPEG", JpegImagePlugin.jpeg_factory, accept)


def test_a_foreign_method_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are then not deferred: native code decodes them when Pillow would."""
    pillows = Image.Image.convert
    monkeypatch.setattr(Image.Image, "convert", lambda self, *args: pillows(self, *args).transpose(0))
    expected = opened().convert("RGB")
    with native_opener():
        image = opened()
        access = image.load()
        assert not is_deferred(image)
        assert access[0, 0] == opened().load()[0, 0]
        assert image.tile == []
        assert opened().convert("RGB") == expected
        assert _tally.process_state.tally.images_native > 0


@needs_deferral
def test_exchanged_while_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that a program replaces meanwhile stays."""
    with native_opener():
        ours = Image.Image.crop
        monkeypatch.setattr(Image.Image, "crop", lambda self, box=None: ours(self, box))
        assert opened().crop((0, 0, 3, 3)).size == (3, 3)
        theirs = Image.Image.crop
    assert Image.Image.crop is theirs
    monkeypatch.undo()
    assert opened().crop((0, 0, 3, 3)).size == (3, 3)
    Image.Image.crop = ours.__wrapped__  # type: ignore[attr-defined, method-assign]


class Lazy(Image.Image):
    """Has Pillow's methods and none of its attributes."""

    mode = _mode = "RGB"
    size = (4, 4)
    readonly = 0
    palette = None

    def __init__(self) -> None:
        self.info = {}
        self.asked = 0

    def _copy_info(self) -> dict[Any, Any]:
        return {}

    def load(self) -> None:
        self.asked += 1

    @property
    def im(self) -> Any:
        return Image.new("RGB", (4, 4), (1, 2, 3)).im


@needs_deferral
@pytest.mark.parametrize(
    "program",
    [
        lambda image: image.crop((0, 0, 2, 2)),
        lambda image: image.convert("L"),
        lambda image: image.copy(),
        lambda image: image.resize((2, 3)),
        lambda image: image.transpose(2),
        lambda image: image.tobytes(),
        lambda image: Image.Image.crop(object(), (0, 0, 1, 1)),  # type: ignore[arg-type]
        lambda image: Image.Image.tobytes(object()),  # type: ignore[arg-type]
    ],
)
def test_classes_without_pillows_attributes(program: Any) -> None:
    assert_same_result(lambda: outcome(lambda: program(Lazy())))


def test_registered_by_many_threads_and_undone_by_one() -> None:
    convert, opener = Image.Image.convert, Image.OPEN["JPEG"]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            barrier = threading.Barrier(8)

            def register(_: int, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                fastload.register_opener()

            list(pool.map(register, range(8)))
            fastload.unregister_opener()
            assert Image.Image.convert is convert
            assert Image.OPEN["JPEG"] == opener


def test_threads_that_ask_at_once_share_pixels() -> None:
    with native_opener(), ThreadPoolExecutor(8) as pool:
        for _ in range(30):
            image = opened("420").convert("RGB")
            barrier = threading.Barrier(8)

            def put(number: int, image: Any = image, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                image.putpixel((number, 0), (number, number, number))

            list(pool.map(put, range(8)))
            assert [image.getpixel((number, 0))[0] for number in range(8)] == list(range(8))


@needs_deferral
def test_an_image_that_crosses_a_fork() -> None:
    with native_opener():
        image = opened("420").convert("RGB").crop((5, 5, 50, 60))
        unloaded = opened("420")
        expected = opened("420").convert("RGB").crop((5, 5, 50, 60)).tobytes()
        child = os.fork()
        if child == 0:
            is_same = image.tobytes() == expected and unloaded.convert("RGB").crop((5, 5, 50, 60)).tobytes() == expected
            is_native = is_deferred(opened("420").convert("RGB"))
            os._exit(0 if is_same and is_native else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert image.tobytes() == expected


def test_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    with native_opener(), pytest.raises(Image.DecompressionBombError):
        opened()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with native_opener():
        image = opened().convert("RGB")
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
        with pytest.raises(Image.DecompressionBombError):
            image.crop((0, 0, 30, 30))


def test_interpreter_exit(run_child: Any, tmp_path: Path) -> None:
    save_jpeg(tmp_path / "a.jpg", 1, 64, 48)
    child = run_child(
        """
        import fastload
        from PIL import Image
        fastload.register_opener()
        kept = [Image.open("a.jpg"), Image.open("a.jpg").convert("RGB"), Image.open("a.jpg").load()]
        print("ends")
        """
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == "ends"
    assert child.stderr == ""


def test_replaced_methods_look_like_pillows() -> None:
    names = ("load", "convert", "crop", "resize", "transpose", "copy", "tobytes", "filter", "point")

    def shown() -> list[Any]:
        methods = [getattr(Image.Image, name) for name in names]
        return [(inspect.signature(each), inspect.getsource(each), pydoc.render_doc(each)) for each in methods]

    assert_same_result(shown)


def test_a_failing_file_is_counted_with_its_reason() -> None:
    class Failing(io.BytesIO):
        def seek(self, position: int, whence: int = 0) -> int:
            if self.is_gone:
                raise OSError("gone")
            return super().seek(position, whence)

        is_gone = False

    with native_opener():
        tally = _tally.process_state.tally
        assert tally is not None
        file = Failing(KINDS["baseline"])
        image = Image.open(file)
        file.is_gone = True
        with pytest.raises(OSError, match="gone"):
            image.load()
    assert tally.take() == {
        "images_opened": 1,
        "images_native": 0,
        "image_fallback_reasons": {"its file could not be read": 1},
    }


def test_plain_images_cost_little() -> None:
    """For an image that is not deferred, the replaced methods pass their arguments on to Pillow's."""
    plain = Image.new("RGB", (4, 4), (1, 2, 3))
    with native_opener():
        assert plain.convert("L", dither=Image.Dither.NONE).mode == "L"
        assert plain.resize(size=(2, 2), resample=0, box=(0, 0, 2, 2)).size == (2, 2)
        with pytest.raises(TypeError):
            plain.crop((0, 0, 1, 1), 3)  # type: ignore[call-arg]
        assert sys.getrefcount(plain.copy()) < 5
