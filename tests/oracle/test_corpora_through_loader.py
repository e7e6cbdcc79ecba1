"""Every file of the corpora through the loader, against torchvision and Pillow on the same file.

Each number of threads has its own process, so a crash or a hang is a failure that names its file.
"""

from __future__ import annotations

import collections
import faulthandler
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from corpora_files import manifest_rows
from PIL import Image
from torchvision import transforms

import fastload
from fastload._tools.verify._replay import apply_steps

SECONDS_PER_FILE = 20

IN_FULL, A_REGION, RANDOM_CROP = "in full", "a region", "a random crop"
PIPELINES = {
    IN_FULL: [transforms.Resize((96, 96), transforms.InterpolationMode.BICUBIC)],
    A_REGION: [transforms.CenterCrop(64)],
    RANDOM_CROP: [transforms.RandomResizedCrop(48)],
}


# ---- in the child ---------------------------------------------------------------------------------------------------


def reference_of(path: Path) -> Image.Image | Exception:
    try:
        return recipes.pillow_image(str(path))
    except Exception as error:  # noqa: BLE001 - whatever Pillow raises is the reference
        return error


def difference(name: str, iterator: Any, index: int, path: Path, reference: Image.Image | Exception) -> str | None:
    """Requests the next sample and returns its difference from the reference, or None."""
    try:
        images, labels = next(iterator)
    except fastload.SampleError as error:
        return difference_of_errors(error, index, path, reference)
    if isinstance(reference, Exception):
        return f"delivered, but Pillow raises {reference!r}"
    if labels.tolist() != [index]:
        return f"label {labels.tolist()}"
    if name == RANDOM_CROP:
        expected = apply_steps(reference, iterator.batch_report()[0].steps)
    else:
        expected = transforms.Compose(PIPELINES[name])(reference)
    return None if images[0].equal(transforms.functional.pil_to_tensor(expected)) else "other pixels"


def difference_of_errors(
    error: fastload.SampleError, index: int, path: Path, reference: Image.Image | Exception
) -> str | None:
    if not isinstance(reference, Exception):
        return f"raised, but Pillow decodes it: {error!r}"
    if not isinstance(error, type(reference)):
        return f"{type(error).__mro__} is no {type(reference)}"
    if str(reference).rstrip(".") not in str(error):
        return f"{reference!r} is not in {error}"
    if (error.index, error.path) != (index, str(path)) or f"sample {index} " not in str(error):
        return f"names another sample: {error}"
    return None if path.name in str(error) else f"does not name the file: {error}"


def compare_all(num_workers: int) -> None:
    """Prints a line of JSON: the differences, and each file's source for each pipeline."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # Pillow's, about damaged metadata
    paths = [row.path for row in manifest_rows()]
    loaders = {}
    for name, steps in PIPELINES.items():
        dataset = fastload.ImageFiles(
            paths, list(range(len(paths))), transforms.Compose([*steps, transforms.PILToTensor()])
        )
        loaders[name] = fastload.DataLoader(dataset, batch_size=1, num_workers=num_workers, rng="sample", seed=3)
        assert loaders[name].explain().startswith("native"), loaders[name].explain()
    iterators = {name: iter(loader) for name, loader in loaders.items()}
    differences = []
    sources: dict[str, list[str]] = {name: [] for name in PIPELINES}
    for index, path in enumerate(paths):
        print(path, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(SECONDS_PER_FILE, exit=True)
        reference = reference_of(path)
        for name, iterator in iterators.items():
            found = difference(name, iterator, index, path, reference)
            if found is not None:
                differences.append(f"{path}, {name}: {found}")
            is_raised = isinstance(reference, Exception)
            sources[name].append("raised" if is_raised else iterator.batch_report()[0].source)
    faulthandler.cancel_dump_traceback_later()
    for name, iterator in iterators.items():
        if next(iterator, None) is not None:
            differences.append(f"{name}: a batch too many")
        stats = loaders[name].stats()
        if stats.samples_failed != sources[name].count("raised"):
            differences.append(f"{name}: {stats.samples_failed} samples failed by the counter")
    print(json.dumps({"differences": differences, "sources": sources}))


# ---- in the test ----------------------------------------------------------------------------------------------------


def run_comparison(run_child: Callable[..., Any], num_workers: int) -> dict[str, Any]:
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_corpora_through_loader as module
        module.compare_all({num_workers})
    """
    child = run_child(code, timeout=150, check=False)
    last_words = "\n".join(child.stderr.splitlines()[-40:])  # the last file begun, and the place of a hang
    assert child.returncode == 0, f"the child ended with {child.returncode}:\n{last_words}"
    result: dict[str, Any] = json.loads(child.stdout)
    return result


def table_of_shares(sources: list[str]) -> Iterator[str]:
    """Yields, for each tag, the share of JPEG files decodable by Pillow that are decoded natively."""
    totals: collections.Counter[str] = collections.Counter()
    native: collections.Counter[str] = collections.Counter()
    for row, source in zip(manifest_rows(), sources, strict=True):
        if row.pillow_format in ("JPEG", "MPO") and source != "raised":
            tags = [f"class {row.kind}", *row.tags.split(",")]
            totals.update(tags)
            native.update(tags if source == "native" else [])
    for tag, count in totals.most_common():
        yield f"  {tag:<20} {native[tag]:>4} of {count:>4}  {native[tag] / count:>4.0%}"


@pytest.mark.usefixtures("corpora")
@pytest.mark.parametrize("num_workers", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_every_file_is_as_torchvision_and_pillow_make_it(
    run_child: Callable[..., Any], capsys: pytest.CaptureFixture[str], num_workers: int
) -> None:
    result = run_comparison(run_child, num_workers)
    assert result["differences"] == []
    for name, sources in result["sources"].items():
        counts = collections.Counter(sources)
        assert counts["native"] > 100, (name, counts)
        assert counts["fallback"] > 100, (name, counts)
        assert counts["raised"] > 100, (name, counts)
        with capsys.disabled():
            print(f"\ncorpora, {name}, num_workers={num_workers}: {dict(counts)}", end="")
    if num_workers == 0:
        with capsys.disabled():
            print("\ndecoded natively through the loader, of the JPEG files that Pillow decodes:")
            print("\n".join(table_of_shares(result["sources"][IN_FULL])))
