"""Coefficients and pixels on disk change no byte, error, draw or order, and a changed file is read anew."""

from __future__ import annotations

import io
import json
import mmap
import os
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from bad_folders import ListOfFiles
from cached_epochs import (
    RECIPES,
    SIZE,
    assert_only_records,
    blocks_bytes,
    digests,
    let_go_of_stores,
    loader_of,
    make_photographs,
    shuffled_loader,
    told_in_two_epochs,
    wait_for_another_second,
)
from image_folders import save_jpeg, synthetic_image
from PIL import Image
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload
from fastload import _native
from fastload._decode_cache import _build, _file_records, _folder

HOUR_NS = 3600 * 10**9
# Name -> what makes a transform that begins with steps that do not draw.
RECIPES_OF_PIXELS: dict[str, Callable[[], Any]] = {
    "evaluation": lambda: recipes.evaluation(64, 32),
    "of one size": lambda: transforms.Compose(
        [
            *(transforms.Resize((50, 61)), transforms.Grayscale(3)),
            *(transforms.ColorJitter(0.4, 0.4, 0.4, 0.1), transforms.ToTensor()),
        ]
    ),
    "of several sizes": lambda: transforms.Compose(
        [
            *(transforms.Resize(72), transforms.RandomCrop(SIZE, padding=4), transforms.RandomHorizontalFlip()),
            *(transforms.RandAugment(), transforms.ToTensor(), transforms.RandomErasing(0.5)),
        ]
    ),
    "resized twice": lambda: transforms.Compose(
        [transforms.Resize(90), transforms.RandomVerticalFlip(), transforms.Resize((SIZE, SIZE)), transforms.ToTensor()]
    ),
    "ends in Python with a tensor": lambda: transforms.Compose(
        [
            *(transforms.Resize(72), transforms.CenterCrop(64), transforms.RandomCrop(SIZE), transforms.ToTensor()),
            *(torch.neg, _with_noise),
        ]
    ),
    "goes on in Python with an image": lambda: transforms.Compose(
        [
            *(transforms.Resize((60, 52)), transforms.Grayscale(3), transforms.RandomHorizontalFlip(), _turned),
            *(transforms.RandomCrop(SIZE), transforms.ToTensor()),
        ]
    ),
    "two views": lambda: fastload.MultiView([view_of(transforms.RandomCrop(40)), view_of(transforms.CenterCrop(40))]),
}


def _with_noise(image: torch.Tensor) -> torch.Tensor:
    return image + torch.rand(1)


def _turned(image: Image.Image) -> Image.Image:
    return image.rotate(10 * float(torch.rand(1)))


def view_of(crop: Any) -> Any:
    return transforms.Compose([transforms.Resize(64), crop, transforms.ToTensor()])


@pytest.fixture(autouse=True)
def files_are_old_enough(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", HOUR_NS)
    _native.clear_index_memory()
    yield
    _native.clear_index_memory()
    let_go_of_stores()


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    return make_photographs(tmp_path / "photographs", 16)


@pytest.fixture(params=["coefficients", "pixels"])
def what(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def cache(tmp_path: Path, what: Any) -> fastload.Cache:
    return cache_at(tmp_path / "store", what)


def cache_at(path: Path, what: Any, max_bytes: str = "1G", **arguments: Any) -> fastload.Cache:
    return fastload.Cache(path, max_bytes, what=what, **arguments)


def hits_in(stats: fastload.Stats) -> int:
    """Returns the hits of the one kind that is used."""
    return stats.cache_coefficient_hits + stats.cache_pixel_hits


def drawing(what: str) -> Any:
    """Returns a transform that draws: at once, or after steps whose pixels are worth keeping."""
    kept = [transforms.Resize(320), transforms.CenterCrop(310), transforms.RandomCrop(SIZE), transforms.ToTensor()]
    return recipes.training(SIZE) if what == "coefficients" else transforms.Compose(kept)


def fill(cache: fastload.Cache, dataset: Any) -> int:
    """Builds the records of the files of `dataset`, which a loader with this cache uses."""
    return cache.fill(fastload.DataLoader(dataset, batch_size=4, cache=cache), progress=False)


def fill_folder(cache: fastload.Cache, folder: str | os.PathLike[str]) -> int:
    return fill(cache, ImageFolder(str(folder), recipes.evaluation(SIZE, SIZE - 8)))


def filled_stats_of(folder: Path, cache: fastload.Cache) -> fastload.Stats:
    fill_folder(cache, folder)
    return stats_of(folder, cache)


def stats_of(folder: Path, cache: Any) -> fastload.Stats:
    return compared_stats(ImageFolder(str(folder), recipes.evaluation(SIZE, SIZE - 8)), cache)


def compared_stats(dataset: Any, cache: Any, epochs: int = 2, **arguments: Any) -> fastload.Stats:
    """Runs epochs, whose batches are compared with those without a cache."""
    kept, plain = (
        fastload.DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, "cache": setting, **arguments})
        for setting in (cache, None)
    )
    assert digests(kept, epochs) == digests(plain, epochs)
    return kept.stats()


@pytest.mark.parametrize("num_workers", [0, 3])
@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize(
    ("what", "recipe"),
    [*(("coefficients", recipe) for recipe in RECIPES), *(("pixels", recipe) for recipe in RECIPES_OF_PIXELS)],
)
def test_three_epochs_have_the_bytes_without_a_cache_and_so_has_the_next_run(
    odd_images: Path, cache: fastload.Cache, what: str, recipe: str, rng: str, num_workers: int
) -> None:
    dataset = ImageFolder(str(odd_images), (RECIPES if what == "coefficients" else RECIPES_OF_PIXELS)[recipe]())

    def run(cache: Any) -> tuple[list[str], fastload.Stats]:
        loader = shuffled_loader(dataset, rng, num_workers, cache)
        return digests(loader, 3), loader.stats()

    expected, plain = run(None)
    # The progressive file, too; of the PNG the pixels.
    num_records = 23 if what == "coefficients" else 24
    assert fill(cache, dataset) == num_records
    let_go_of_stores()
    found, known = run(cache)
    assert found == expected
    assert hits_in(known) == 3 * num_records
    assert known.cache_mismatches == known.cache_dropped == known.cache_damaged == known.cache_stale == 0
    assert known.bytes_read < plain.bytes_read
    let_go_of_stores()
    assert_only_records(cache.path / "v1")


@pytest.mark.parametrize("what", ["coefficients"])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("recipe", RECIPES)
def test_images_that_are_opened_with_pillow_have_the_bytes_without_a_cache(
    odd_images: Path, cache: fastload.Cache, recipe: str, num_workers: int
) -> None:
    images = ImageFolder(str(odd_images), RECIPES[recipe]())
    dataset = ListOfFiles(images, images.transform)

    def run(cache: Any) -> tuple[list[str], fastload.Stats]:
        loader = fastload.DataLoader(dataset, batch_size=5, num_workers=num_workers, cache=cache)
        return digests(loader, 3), loader.stats()

    expected = run(None)[0]
    fill(cache, images)
    found, known = run(cache)
    assert found == expected
    # Without worker threads Pillow opens them itself.
    assert hits_in(known) == (69 if num_workers else 0)
    assert known.cache_mismatches == known.cache_damaged == known.cache_stale == 0


@pytest.mark.parametrize("what", ["coefficients"])
def test_an_opened_file_that_changes_is_decoded_anew(photographs: Path, cache: fastload.Cache) -> None:
    images = ImageFolder(str(photographs), recipes.evaluation(SIZE, SIZE - 8))
    dataset = ListOfFiles(images, images.transform)
    fill(cache, images)
    loaders = [fastload.DataLoader(dataset, batch_size=4, num_workers=2, cache=setting) for setting in (cache, None)]
    assert digests(loaders[0], 2) == digests(loaders[1], 2)
    wait_for_another_second()
    for path in sorted(photographs.rglob("*.jpg"))[::5]:
        rewritten_with_its_size_and_times(path)
    assert digests(loaders[0], 2) == digests(loaders[1], 2)
    stats = loaders[0].stats()
    assert (stats.cache_stale, hits_in(stats)) == (8, 32 + 24)


def test_bad_files_have_their_errors_and_places(
    odd_images: Path, cache: fastload.Cache, tmp_path: Path, what: str
) -> None:
    folder = shutil.copytree(odd_images, tmp_path / "images")
    victim = folder / "class0" / "02.jpg"
    victim.write_bytes(victim.read_bytes()[:2000])
    dataset = ImageFolder(str(folder), drawing(what))
    assert fill(cache, dataset) == 22 + (what == "pixels")
    plain, known = (told_in_two_epochs(dataset, setting) for setting in (None, cache))
    assert plain == known
    assert any("02.jpg" in line for line in plain)


def replaced_by_another_size(path: Path) -> None:
    save_jpeg(path, 99, 90, 200)


def rewritten_with_its_size_and_times(path: Path) -> None:
    before = path.stat()
    save_jpeg(path, 99, 160, 120, quality=30)
    path.write_bytes(path.read_bytes().ljust(before.st_size, b"\0"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def renamed_over(path: Path) -> None:
    save_jpeg(path.with_suffix(".new"), 99, 160, 120)
    os.replace(path.with_suffix(".new"), path)  # noqa: PTH105


def cut(path: Path) -> None:
    os.truncate(path, 900)


def forbidden(path: Path) -> None:
    path.unlink()
    path.mkdir()


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    "change", [replaced_by_another_size, rewritten_with_its_size_and_times, renamed_over, cut, forbidden, gone]
)
@pytest.mark.parametrize("validate", ["stat", "content"])
def test_a_file_that_changes_is_read_anew(
    photographs: Path, tmp_path: Path, validate: Any, change: Callable[[Path], None], what: Any
) -> None:
    cache = cache_at(tmp_path / "store", what, validate=validate)
    dataset = ImageFolder(str(photographs), recipes.evaluation(SIZE, SIZE - 8))
    fill(cache, dataset)
    for path in sorted(photographs.rglob("*.jpg"))[::5]:
        change(path)
    assert told_in_two_epochs(dataset, cache) == told_in_two_epochs(dataset, None)


def test_files_whose_samples_end_in_python_are_read_anew_when_they_change(odd_images: Path, tmp_path: Path) -> None:
    """Also files that Pillow decodes: a record of one version is never used for the next one."""
    folder = shutil.copytree(odd_images, tmp_path / "images")
    cache = cache_at(tmp_path / "store", "pixels")
    dataset = ImageFolder(str(folder), RECIPES_OF_PIXELS["goes on in Python with an image"]())
    fill(cache, dataset)

    assert compared_stats(dataset, cache, rng="sample", seed=1).cache_pixel_hits == 48
    wait_for_another_second()
    for path in sorted(folder.glob("*/*")):
        with Image.open(path) as image:
            turned, form = image.transpose(Image.Transpose.ROTATE_180), image.format
        turned.save(path, format=form)
    stale = compared_stats(dataset, cache, rng="sample", seed=1)
    # The PNG does not count: native code leaves it to Pillow.
    assert (stale.cache_stale, stale.cache_pixel_hits) == (46, 0)
    assert fill(cache, dataset) == 24
    anew = compared_stats(dataset, cache, rng="sample", seed=1)
    assert (anew.cache_stale, anew.cache_pixel_hits) == (0, 48)


def test_a_file_that_was_only_touched_is_read_anew_by_its_facts_and_not_by_its_bytes(
    photographs: Path, tmp_path: Path, what: Any
) -> None:
    for validate, stale in (("stat", 32), ("content", 0)):
        cache = cache_at(tmp_path / validate, what, validate=validate)
        fill_folder(cache, photographs)
        wait_for_another_second()
        for path in photographs.rglob("*.jpg"):
            path.touch()
        stats = stats_of(photographs, cache)
        assert (stats.cache_stale, hits_in(stats)) == (stale, 32 - stale)


def test_a_folder_exchanged_by_a_link_is_another_one(photographs: Path, cache: fastload.Cache, tmp_path: Path) -> None:
    wait_for_another_second()
    other = make_photographs(tmp_path / "other", 16)
    for seed, path in enumerate(sorted(other.rglob("*.jpg"))):
        save_jpeg(path, 50 + seed, 160, 120)
    place = tmp_path / "place"
    place.symlink_to(photographs)
    fill_folder(cache, place)
    place.unlink()
    place.symlink_to(other)
    assert stats_of(place, cache).cache_stale == 32


def test_a_file_that_was_just_changed_is_not_kept(
    photographs: Path, cache: fastload.Cache, monkeypatch: pytest.MonkeyPatch, what: Any
) -> None:
    for seconds in (0, 55):
        monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", seconds * 10**9)
        with pytest.warns(
            RuntimeWarning, match=f"^16 files have no {what}: files that were changed in the last minute "
        ):
            assert fill_folder(cache, photographs) == 0
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", 61 * 10**9)
    assert hits_in(filled_stats_of(photographs, cache)) == 32


def test_files_of_a_relative_root_are_those_of_its_folder(
    photographs: Path, cache: fastload.Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "elsewhere"
    make_photographs(other / "photographs", 16)
    for seed, path in enumerate(sorted(other.rglob("*.jpg"))):
        save_jpeg(path, 70 + seed, 160, 120)
    for folder in (photographs.parent, other):
        monkeypatch.chdir(folder)
        assert hits_in(filled_stats_of(Path("photographs"), cache)) == 32
    monkeypatch.chdir(photographs.parent)
    assert hits_in(stats_of(Path("photographs"), cache)) == 32
    assert hits_in(stats_of(photographs, cache)) == 32
    assert hits_in(stats_of(Path(f"{photographs.parent}/.//photographs"), cache)) == 32
    dotted = ImageFolder(f".//{photographs.name}/./", recipes.evaluation(SIZE, SIZE - 8))
    loader = fastload.DataLoader(dataset=dotted, batch_size=4, num_workers=2, cache=cache)
    monkeypatch.chdir(photographs.parent)
    assert digests(loader) == digests(loader_of(photographs, None))
    assert hits_in(loader.stats()) == 16


@pytest.mark.parametrize("is_ended_in_python", [False, True])
@pytest.mark.parametrize("other_size", [(160, 120), (150, 130)])
def test_what_a_map_writes_unseen_is_noticed_by_a_check_and_by_the_bytes(
    tmp_path: Path,
    what: Any,
    other_size: tuple[int, int],
    is_ended_in_python: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On tmpfs a store through a map into a page that is dirty already changes no time."""
    shared_memory = Path("/dev/shm")
    if not os.access(shared_memory, os.W_OK):
        pytest.skip("no tmpfs")
    folder = make_photographs(shared_memory / f"fastload-test-{os.getpid()}", 4)

    def loader_with(cache: Any, num_workers: int = 2) -> fastload.DataLoader[Any]:
        dataset = ImageFolder(str(folder), evaluation(is_ended_in_python))
        return fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers, cache=cache)

    def bytes_of(seed: int, size: tuple[int, int]) -> bytes:
        buffer = io.BytesIO()
        synthetic_image(seed, *size).save(buffer, "JPEG")
        return buffer.getvalue()

    try:
        path = sorted(folder.rglob("*.jpg"))[0]
        others = bytes_of(99, other_size)
        first = bytes_of(98, (160, 120))
        size = max(len(first), len(others))
        path.write_bytes(first.ljust(size, b"\0"))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapped:
            mapped[0] = mapped[0]  # dirty from here on
            caches = {
                "stat": cache_at(tmp_path / "stat", what),
                "content": cache_at(tmp_path / "content", what, validate="content"),
            }
            monkeypatch.setattr(_file_records, "SPOT_CHECK_INTERVAL", 0)
            before = path.stat()
            plain = digests(loader_with(None), 2)
            for cache in caches.values():
                fill(cache, ImageFolder(str(folder), evaluation(is_ended_in_python)))
                assert digests(loader_with(cache), 2) == plain
            mapped[: len(others)] = others
            if path.stat() != before:
                pytest.skip("this kernel sets the times of a mapped file")
            plain = digests(loader_with(None), 3)
            assert digests(loader_with(caches["stat"]), 3) != plain
            assert digests(loader_with(caches["content"]), 3) == plain
            monkeypatch.setattr(_file_records, "SPOT_CHECK_INTERVAL", 1)
            loader = loader_with(caches["stat"], num_workers=1)
            named = f"by the {what} in {str(tmp_path / 'stat')!r}, that of {str(path)!r}, was not as its file is: they"
            with pytest.warns(RuntimeWarning, match=re.escape(named)):
                assert digests(loader, 3) == plain
            stats = loader.stats()
            assert stats.cache_mismatches == 1
            assert hits_in(stats) < 4
            assert "not used any more" in str(loader.explain())
    finally:
        shutil.rmtree(folder)


def evaluation(is_ended_in_python: bool) -> Any:
    ending = [torch.neg] if is_ended_in_python else []
    return transforms.Compose([transforms.Resize((40, 40)), transforms.ToTensor(), *ending])


def test_checked_images_have_the_bytes_without_a_cache(
    photographs: Path, cache: fastload.Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _file_records.SPOT_CHECK_INTERVAL == 256
    monkeypatch.setattr(_file_records, "SPOT_CHECK_INTERVAL", 1)
    stats = filled_stats_of(photographs, cache)
    assert stats.cache_checks == stats.cache_hits == hits_in(stats) == 32
    assert stats.cache_mismatches == 0
    monkeypatch.setattr(_file_records, "SPOT_CHECK_INTERVAL", 4)
    assert stats_of(photographs, cache).cache_checks == 8


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_ended_in_python", [False, True])
def test_images_that_pillow_decodes_have_pixels_and_are_not_checked(
    tmp_path: Path, is_ended_in_python: bool, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_file_records, "SPOT_CHECK_INTERVAL", 1)
    folder = tmp_path / "images" / "one"
    folder.mkdir(parents=True)
    for seed in range(6):
        synthetic_image(seed, 160, 120 + seed).save(folder / f"{seed}.png")
        synthetic_image(9 + seed, 160, 120).convert("CMYK").save(folder / f"{seed}.jpg")
    dataset = ImageFolder(str(folder.parent), evaluation(is_ended_in_python))
    cache = cache_at(tmp_path / "store", "pixels")
    assert fill(cache, dataset) == 12
    stats = compared_stats(dataset, cache, 3, num_workers=num_workers)
    assert stats.cache_hits == stats.cache_pixel_hits == 36
    assert stats.cache_checks == 0
    assert stats.cache_mismatches == 0


def test_damaged_records_are_read_anew(photographs: Path, cache: fastload.Cache, what: Any) -> None:
    fill_folder(cache, photographs)
    (data,) = (cache.path / "v1").glob(f"{what}-*.dat")
    bytes_of_all = bytearray(data.read_bytes())
    for at in range(100, len(bytes_of_all), 997):
        bytes_of_all[at] ^= 4
    data.write_bytes(bytes_of_all)
    stats = stats_of(photographs, cache)
    assert stats.cache_damaged >= 16
    assert stats.cache_mismatches == 0


def test_some_of_the_images_have_room(tmp_path: Path, what: Any) -> None:
    """The others are decoded by their indexes, and all is counted."""
    count = 48
    for seed in range(count):
        save_jpeg(tmp_path / "images" / "one" / f"{seed:02}.jpg", seed, 700, 600, quality=97)
    cache = cache_at(tmp_path / "store", what, "4MiB")
    dataset = ImageFolder(str(tmp_path / "images"), drawing(what))
    with pytest.warns(RuntimeWarning, match=rf"^\d+ files have no {what}: its max_bytes are used up$"):
        num_records = fill(cache, dataset)
    assert 0 < num_records < count
    stats = compared_stats(dataset, cache, 3)
    assert hits_in(stats) == 3 * num_records
    assert stats.cache_hits > hits_in(stats)
    assert blocks_bytes(cache.path / "v1") <= 4 << 20


def test_other_processes_find_what_one_has_built(
    photographs: Path, cache: fastload.Cache, run_child: Callable[..., Any], what: Any
) -> None:
    program = """
    import os, fastload
    from cached_epochs import digests, loader_of
    from fastload._decode_cache import _build
    _build.CLOCK_AHEAD_NS = 3600 * 10**9
    cache = fastload.Cache(os.environ["STORE"], "1G", what=os.environ["WHAT"])
    loader = loader_of(os.environ["FOLDER"], cache)
    if "FILLS" in os.environ:
        assert cache.fill(loader, progress=False) == 16
    found, stats = digests(loader), loader.stats()
    print(*found, stats.cache_coefficient_hits + stats.cache_pixel_hits)
    """
    expected = digests(loader_of(photographs, None))
    env = {"FOLDER": str(photographs), "STORE": str(cache.path), "WHAT": what}
    settings = ({**env, "FILLS": "1"}, env)
    printed = [run_child(program, env=setting, warm=True).stdout.split() for setting in settings]
    assert printed == [[*expected, "16"]] * 2


@pytest.mark.parametrize("file_system", ["nfs4", "fuse.sshfs"])
def test_on_a_file_system_of_other_machines_none_are_built_or_used(
    photographs: Path, cache: fastload.Cache, monkeypatch: pytest.MonkeyPatch, file_system: str, what: Any
) -> None:
    fill_folder(cache, photographs)
    files = sorted((cache.path / "v1").glob(f"{what}-*"))
    before = [file.read_bytes() for file in files]
    monkeypatch.setattr(_folder, "file_system_of", lambda fd: file_system)
    loader = loader_of(photographs, cache)
    where = f"it is on {file_system}, and must be on a disk of this machine"
    with pytest.warns(RuntimeWarning, match=f"^{what} in .* are not used: {where}. Images are "):
        assert digests(loader, 2) == digests(loader_of(photographs, None), 2)
    assert hits_in(loader.stats()) == 0
    assert f"{what} are not used: {where}" in json.dumps(loader.explain().as_dict())
    with pytest.raises(OSError, match=where):
        fill_folder(cache, photographs)
    assert [file.read_bytes() for file in sorted((cache.path / "v1").glob(f"{what}-*"))] == before


def test_what_a_sample_was_made_of_is_reported(
    photographs: Path, cache: fastload.Cache, what: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An image that is checked is made of its file.
    monkeypatch.setattr(_file_records, "SPOT_CHECK_INTERVAL", 0)
    fill_folder(cache, photographs)
    sources = []
    for setting in (None, cache):
        iterator = iter(loader_of(photographs, setting))
        sources += [{report.source for report in iterator.batch_report()} for _ in iterator]
    assert sources == [{"native"}] * 4 + [{what}] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"what": "coefficients"}, "max_bytes must be given with what='coefficients', which takes about 1.7 times"),
        ({"what": "pictures", "max_bytes": "1G"}, "what must be 'index' or 'coefficients' or 'pixels', got 'pictures'"),
        (
            {"what": ("pixels", "coefficients")},
            "max_bytes must be given with what=('pixels', 'coefficients'), which takes",
        ),
        ({"what": ()}, "what must be 'index' or 'coefficients' or 'pixels', or a tuple of these, got ()"),
        (
            {"what": ["index", "all"]},
            "what must be 'index' or 'coefficients' or 'pixels', or a tuple of these, got ['in",
        ),
        ({"validate": "hope"}, "validate must be 'stat' or 'content', got 'hope'"),
    ],
)
def test_settings_that_are_none_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        fastload.Cache("/tmp/store", **arguments)


def test_a_cache_shows_itself_by_its_arguments(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, "coefficients", validate="content")
    place = f"Cache({str(tmp_path)!r}, max_bytes=1000000000"
    assert repr(cache) == f"{place}, what='coefficients', validate='content')"
    assert eval(repr(cache), {"Cache": fastload.Cache}) == cache
    assert pickle.loads(pickle.dumps(cache)) == cache != cache_at(tmp_path, "coefficients")
    several = cache_at(tmp_path, ["pixels", "coefficients"])
    assert repr(several) == f"{place}, what=('pixels', 'coefficients'))"
    assert eval(repr(several), {"Cache": fastload.Cache}) == several


def test_one_cache_has_for_each_loader_what_fits_its_transform(photographs: Path, tmp_path: Path) -> None:
    def used(transform: Any, cache: Any) -> tuple[int, int, int]:
        """Hits by pixels, by coefficients and by indexes in two epochs, whose batches are compared."""
        dataset = ImageFolder(str(photographs), transform)
        assert fill(cache, dataset) == 16
        stats = compared_stats(dataset, cache)
        files = stats.cache_pixel_hits + stats.cache_coefficient_hits
        return stats.cache_pixel_hits, stats.cache_coefficient_hits, stats.cache_hits - files

    fixed, drawing_at_once = drawing("pixels"), drawing("coefficients")
    tail = transforms.Compose([transforms.Resize((40, 40)), transforms.ToTensor(), torch.neg])
    in_python_first = transforms.Compose([_turned, transforms.Resize((40, 40)), transforms.ToTensor()])
    cache = cache_at(tmp_path / "store", ("coefficients", "pixels"))
    assert used(fixed, cache) == (32, 0, 0)
    assert used(drawing_at_once, cache) == (0, 32, 0)
    assert used(tail, cache) == (32, 0, 0)
    assert used(in_python_first, cache) == (0, 32, 0)
    by_pixels, by_coefficients, by_indexes = used(drawing_at_once, cache_at(tmp_path / "other", ("pixels",)))
    assert by_pixels == by_coefficients == 0 < by_indexes


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (recipes.training(SIZE), "Here this transform's RandomResizedCrop draws before the size of images is fixed"),
        (
            transforms.Compose([transforms.Grayscale(3), transforms.RandomCrop(SIZE), transforms.ToTensor()]),
            "Here this transform's RandomCrop draws before the size of images is fixed",
        ),
        (
            fastload.MultiView([view_of(transforms.RandomCrop(40)), recipes.evaluation(40, 40)]),
            "Here this transform's ResizeShorterSide is not the same in all views before the size of images is fixed",
        ),
        (
            transforms.Compose([_turned, transforms.Resize((40, 40)), transforms.ToTensor()]),
            r"Here this transform's native part does not change the size of images:\npartly native: .*\n",
        ),
        (transforms.Compose([transforms.Grayscale(3), transforms.ToTensor()]), "Here this transform does not change"),
    ],
    ids=["draws at once", "draws in front of a crop", "views begin differently", "begins in Python", "keeps the size"],
)
def test_pixels_are_refused_where_none_are_worth_keeping(
    photographs: Path, tmp_path: Path, transform: Any, why: str
) -> None:
    dataset = ImageFolder(str(photographs), transform)
    loader = fastload.DataLoader(dataset, batch_size=4, cache=cache_at(tmp_path / "store", "pixels"))
    fitting = r'^cache=Cache\(what="pixels"\) keeps .*; what="coefficients" or "index" fits any transform\. '
    with pytest.raises(ValueError, match=fitting + why):
        iter(loader)
    assert "  cache      pixels: iter() raises a ValueError, as " in loader.explain()
    with pytest.raises(ValueError, match=fitting):
        loader.cache.fill(loader)
    loader.cache = cache_at(tmp_path / "store", "coefficients")
    loader.cache.fill(loader, progress=False)
    assert digests(loader) == digests(fastload.DataLoader(dataset, batch_size=4))


def test_pixels_of_another_transform_are_others(photographs: Path, tmp_path: Path) -> None:
    """By the steps in front of the first draw alone."""
    cache = cache_at(tmp_path / "store", "pixels")
    resizes = [
        transforms.Resize(60),
        transforms.Resize(60, transforms.InterpolationMode.NEAREST),
        transforms.Resize(61),
    ]
    behind = [[transforms.RandomCrop(SIZE)], [transforms.CenterCrop(SIZE), transforms.RandomHorizontalFlip()]]
    for resize in resizes:
        for steps in behind:
            before = len(list(cache.path.glob("v1/pixels-*.dat")))
            for mean in (0.5, 0.4):
                normalize = transforms.Normalize((mean,) * 3, (0.2,) * 3)
                transform = transforms.Compose([resize, *steps, transforms.ToTensor(), normalize])
                dataset = ImageFolder(str(photographs), transform)
                assert fill(cache, dataset) == 16
                assert len(list(cache.path.glob("v1/pixels-*.dat"))) == before + 1
                assert compared_stats(dataset, cache).cache_pixel_hits == 32


def test_what_was_done_before_pixels_were_kept_is_told(photographs: Path, tmp_path: Path) -> None:
    dataset = ImageFolder(str(photographs), drawing("pixels"))
    told = []
    fill(kept := cache_at(tmp_path / "store", "pixels"), dataset)
    for cache in (None, kept):
        loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=1, cache=cache)
        for _ in range(2):
            loader.set_epoch(0)
            iterator = iter(loader)
            told.append(
                [
                    [(report.path, report.source_size, report.views) for report in iterator.batch_report()]
                    for _ in iterator
                ]
            )
    assert all(one == told[0] for one in told)


def test_a_state_is_of_the_batches_and_not_of_what_is_kept(photographs: Path, tmp_path: Path) -> None:
    dataset = ImageFolder(str(photographs), drawing("pixels"))

    def loader(cache: Any) -> Any:
        torch.manual_seed(1)
        return fastload.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2, cache=cache)

    cache = cache_at(tmp_path / "store", "pixels")
    fill(cache, dataset)
    expected = [images.numpy().tobytes() for images, _ in loader(None)]
    for first, second in ((cache, None), (None, cache), (cache, cache)):
        begun, resumed = loader(first), loader(second)
        iterator = iter(begun)
        assert [next(iterator)[0].numpy().tobytes() for _ in range(2)] == expected[:2]
        resumed.load_state_dict(begun.state_dict())
        assert [images.numpy().tobytes() for images, _ in resumed] == expected[2:]


def test_the_limit_of_pixels_holds_for_images_that_are_kept(
    photographs: Path, cache: fastload.Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the file's image that is too large, whatever was kept of it."""
    fill_folder(cache, photographs)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 160 * 120 // 2 - 1)
    dataset = ImageFolder(str(photographs), recipes.evaluation(SIZE, SIZE - 8))
    plain, kept = (told_in_two_epochs(dataset, setting) for setting in (None, cache))
    assert plain == kept
    assert all("decompression bomb" in line for line in plain)
