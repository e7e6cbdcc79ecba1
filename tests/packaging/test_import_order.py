"""fastload and the other image libraries of a process do not disturb each other, whichever comes first."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_folders import make_mixed_folder

pytest.importorskip("cv2", reason="opencv-python-headless is in tests/requirements.txt")

OTHERS = ("cv2", "PIL.Image", "torchvision_shim")
ORDERS = [("fastload", *OTHERS), (*OTHERS, "fastload"), ("fastload", *OTHERS[::-1]), (*OTHERS[::-1], "fastload")]

# Decodes one JPEG with each library, and a training batch with fastload and by replaying its report with the others.
# Prints digests: equal output means equal results.
DECODE_WITH_EACH = """
import hashlib, io
import cv2, numpy, torch, PIL.Image, torchvision, fastload
import recipes
pixels = numpy.random.default_rng(7).integers(0, 256, (37, 53, 3), dtype=numpy.uint8)
stream = io.BytesIO()
PIL.Image.fromarray(pixels).save(stream, "JPEG", quality=90, subsampling=2)
decoded = [
    cv2.imdecode(numpy.frombuffer(stream.getvalue(), numpy.uint8), cv2.IMREAD_COLOR),
    numpy.asarray(PIL.Image.open(stream).convert("RGB")),
    torchvision.transforms.functional.resize(torch.from_numpy(pixels).permute(2, 0, 1), [20, 20]).numpy(),
]
dataset = fastload.ImageFolder("mixed", recipes.training(64))
for num_workers in (0, 2):
    loader = fastload.DataLoader(dataset, batch_size=len(dataset), num_workers=num_workers, rng="sample", seed=5)
    assert loader.explain().startswith("native"), loader.explain()
    iterator = iter(loader)
    images, _ = next(iterator)
    reports = iterator.batch_report()
    assert {report.source for report in reports} == {"native", "fallback"}
    to_tensor = torchvision.transforms.Compose(recipes.training(64).transforms[2:])
    decoded += [images.numpy(), recipes.replay(reports, to_tensor).numpy()]
    assert images.equal(recipes.replay(reports, to_tensor))
print([hashlib.sha256(array.tobytes()).hexdigest() for array in decoded], fastload.build_info())
"""


@pytest.mark.slow
def test_order_of_imports_changes_no_result(run_child, tmp_path: Path) -> None:
    make_mixed_folder(tmp_path / "mixed")
    outputs = [
        run_child("".join(f"import {name}\n" for name in order) + DECODE_WITH_EACH, timeout=60).stdout
        for order in ORDERS
    ]
    assert outputs[0].startswith("['")
    assert len(set(outputs)) == 1, outputs


def test_fastload_defines_no_symbol_that_another_library_could_take(run_child) -> None:
    code = """
        import ctypes, fastload, fastload._native
        for name in ("jpeg_read_header", "jpeg_std_error", "_ZN8fastload11status_textENS_10StatusCodeE"):
            assert not hasattr(ctypes.CDLL(None), name), name
            assert not hasattr(ctypes.CDLL(fastload._native._core.__file__), name), name
        assert hasattr(ctypes.CDLL(fastload._native._core.__file__), "PyInit__core")
    """
    run_child(code)
