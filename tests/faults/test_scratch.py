"""Decoding memory: large samples leave none, and a file that is not a JPEG is not read whole."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from children import RunChild
from PIL import Image

pytestmark = pytest.mark.alone

# The strips of 24 million pixels alone take 72 MiB.
_LARGE_SIDES = (6000, 4000)
_MIDDLE_SIDES = (2400, 2000)
_ZERO_BYTES = 512 << 20

_CHILD = """
from torchvision import transforms

def make_epoch_loader(names, num_workers):
    steps = [transforms.Resize(64), transforms.CenterCrop(64), transforms.ToTensor()]
    dataset = fastload.ImageFiles(["FOLDER/" + name for name in names], [0] * len(names), transforms.Compose(steps))
    loader = fastload.DataLoader(dataset, batch_size=2, num_workers=num_workers)
    assert loader.explain().startswith("native"), loader.explain()
    return loader

def load(names, num_workers=2):
    loader = make_epoch_loader(names, num_workers)
    for _ in loader:
        pass
    return loader

def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes large.jpg, progressive.jpg, middle.jpg and small.jpg; zeros.jpg, which is not a JPEG."""
    folder = tmp_path_factory.mktemp("scratch")
    Image.new("RGB", _LARGE_SIDES, "red").save(folder / "large.jpg")
    Image.new("RGB", _LARGE_SIDES, "red").save(folder / "progressive.jpg", progressive=True)
    Image.new("RGB", _MIDDLE_SIDES, "red").save(folder / "middle.jpg")
    Image.new("RGB", (64, 64), "red").save(folder / "small.jpg")
    with (folder / "zeros.jpg").open("wb") as file:
        file.truncate(_ZERO_BYTES)
    return folder


def _run(run: RunChild, folder: Path, code: str) -> None:
    run((_CHILD + textwrap.dedent(code)).replace("FOLDER", str(folder)), timeout=60)


@pytest.mark.smoke
@pytest.mark.parametrize("num_workers", [0, 2])
def test_large_images_leave_no_memory_behind(run_loader_child: RunChild, images: Path, num_workers: int) -> None:
    _run(
        run_loader_child,
        images,
        f"""
        load(["small.jpg"] * 4, {num_workers})
        before = resident_mib()
        loader = load(["large.jpg", "progressive.jpg"] * 2, {num_workers})
        assert loader.stats().samples_native == 4
        assert peak_mib() > before + 64
        assert wait_for(lambda: resident_mib() < before + 16), resident_mib() - before
        assert wait_for(lambda: loader.stats().scratch_bytes < 2**24), loader.stats()
        """,
    )


def test_memory_of_middling_images_goes_with_the_samples_that_need_none(
    run_loader_child: RunChild, images: Path
) -> None:
    _run(
        run_loader_child,
        images,
        """
        loader = make_epoch_loader(["middle.jpg"] * 8 + ["small.jpg"] * 80, 1)
        iterator = iter(loader)
        for _ in range(2):
            next(iterator)
        assert loader.stats().scratch_bytes > 2**24  # ready for the next one
        for _ in iterator:
            pass
        assert loader.stats().scratch_bytes < 2**23, loader.stats()
        """,
    )


def test_threads_without_work_keep_no_memory_of_middling_images(run_loader_child: RunChild, images: Path) -> None:
    _run(
        run_loader_child,
        images,
        """
        loader = load(["middle.jpg"] * 8)
        assert wait_for(lambda: loader.stats().scratch_bytes < 2**23), loader.stats()
        """,
    )


@pytest.mark.smoke
def test_images_decoded_one_by_one_leave_no_memory_behind(run_loader_child: RunChild, images: Path) -> None:
    _run(
        run_loader_child,
        images,
        """
        from PIL import Image

        def crop(name):
            return Image.open("FOLDER/" + name).convert("RGB").resize((64, 64)).tobytes()

        fastload.register_opener()
        fastload.decode_image("FOLDER/small.jpg"), crop("small.jpg")
        before = resident_mib()
        for name in ("large.jpg", "progressive.jpg"):
            fastload.decode_image("FOLDER/" + name)
            crop(name)
        assert peak_mib() > before + 64
        assert resident_mib() < before + 16, resident_mib() - before
        """,
    )


@pytest.mark.smoke
def test_a_large_file_that_is_no_jpeg_is_not_read_whole(run_loader_child: RunChild, images: Path) -> None:
    _run(
        run_loader_child,
        images,
        """
        from PIL import UnidentifiedImageError

        loader = make_epoch_loader(["zeros.jpg"] * 4, 2)
        load(["small.jpg"] * 4)
        before = peak_mib()
        for use in (lambda: next(iter(loader)), lambda: fastload.decode_image("FOLDER/zeros.jpg")):
            try:
                use()
            except (fastload.SampleError, UnidentifiedImageError) as error:
                assert "cannot identify image file" in str(error), error
            else:
                raise AssertionError("it is an image")
        assert peak_mib() < before + 64, peak_mib() - before
        assert loader.stats().bytes_read < 2**20, loader.stats()
        """,
    )
