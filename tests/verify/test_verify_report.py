"""The report as text, as JSON and as a picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import recipes
import torch
from both_loaders import Threads
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload


@pytest.fixture
def report(evaluation: ImageFolder) -> fastload.VerifyReport:
    steps = evaluation.transform.transforms
    new = ImageFolder(
        evaluation.root, transforms.Compose([transforms.Resize(40, transforms.InterpolationMode.BICUBIC), *steps[1:]])
    )
    return fastload.verify(DataLoader(evaluation, 4), Threads(new, 4, num_workers=2), seed=3)


def test_the_text_says_what_was_compared_and_what_was_found(report: fastload.VerifyReport) -> None:
    lines = str(report).splitlines()
    assert lines[0] == "fastload verify: 11 of 11 samples in 3 of 3 batches differ"
    settings = "ImageFolder of 11 samples, batch_size=4"
    assert lines[1].split(maxsplit=1)[1] == (
        f"<torch.utils.data.DataLoader: {settings}, no workers>, SequentialSampler"
    )
    assert lines[2].split(maxsplit=1)[1] == f"<fastload.DataLoader: {settings}, 2 threads>, SequentialSampler, native"
    assert "3 batches (whole epoch), seed 3, 135,256 bytes" in lines[3]
    assert f"torch {torch.__version__}" in lines[4]
    assert f"fastload {fastload.__version__}, kernels {fastload.build_info().active_kernel_table}" in lines[4]
    assert all(len(line) < 320 for line in lines)


def test_the_largest_difference_is_where_the_report_says(
    report: fastload.VerifyReport, evaluation: ImageFolder
) -> None:
    worst = report.worst
    assert worst is not None
    assert worst.where.startswith("[0][")
    channel, row, column = (int(part) for part in worst.where[4:-1].split(","))
    steps = [transforms.Resize(40, transforms.InterpolationMode.BICUBIC), *evaluation.transform.transforms[1:]]
    image = recipes.pillow_image(worst.old_path or "")
    gap = (evaluation.transform(image) - transforms.Compose(steps)(image)).abs()
    assert float(gap.max()) == pytest.approx(worst.max_abs_difference)
    assert float(gap[channel, row, column]) == float(gap.max())
    assert max(batch.max_abs_difference or 0 for batch in report.differences) == worst.max_abs_difference
    assert 0 < worst.differing_bytes < 3 * 32 * 32 * 4


def test_the_json_holds_the_same_as_the_report(report: fastload.VerifyReport) -> None:
    found = json.loads(report.to_json())
    assert found["is_equal"] is False
    assert found["stages"] == {"resize": 11}
    assert found["versions"]["torch"] == torch.__version__
    assert [batch["stages"] for batch in found["differences"]] == [{"resize": 4}, {"resize": 4}, {"resize": 3}]
    assert found["worst"]["old_path"] == report.worst.old_path  # type: ignore[union-attr]
    assert "_twins" not in found


def test_numbers_that_are_none_are_json_too() -> None:
    old, new = (TensorDataset(torch.tensor([[1.0, value]])) for value in (2.0, float("nan")))
    report = fastload.verify(DataLoader(old), DataLoader(new))
    assert json.loads(report.to_json())["worst"]["max_abs_difference"] == "inf"
    assert fastload.verify(DataLoader(new), DataLoader(new)).is_equal  # NaN of the same bits
    zeros = [TensorDataset(torch.tensor([[value]])) for value in (0.0, -0.0)]
    signed = fastload.verify(*map(DataLoader, zeros))
    assert signed.worst is not None
    assert (signed.worst.differing_bytes, signed.worst.max_abs_difference) == (1, 0.0)


def test_the_picture_shows_old_new_and_difference(report: fastload.VerifyReport, tmp_path: Path) -> None:
    assert report.has_image
    report.save_image(tmp_path / "worst.png")
    picture = np.asarray(Image.open(tmp_path / "worst.png"))
    assert picture.shape == (32, 3 * 32 + 2 * 4, 3)
    old, new, gap = picture[:, :32], picture[:, 36:68], picture[:, 72:]
    channel, row, column = (int(part) for part in report.worst.where[4:-1].split(","))  # type: ignore[union-attr]
    assert gap[row, column, channel] == 255
    assert {old.min(), new.min()} & {0}
    assert {old.max(), new.max()} & {255}
    assert (old != new).any()


def test_pictures_of_bytes_are_shown_as_they_are(evaluation: ImageFolder, tmp_path: Path) -> None:
    steps = [transforms.Resize(40), transforms.CenterCrop(32)]
    old = ImageFolder(evaluation.root, transforms.Compose([*steps, transforms.PILToTensor()]))
    new = ImageFolder(
        evaluation.root, transforms.Compose([*steps[:1], transforms.CenterCrop(30), transforms.PILToTensor()])
    )
    report = fastload.verify(DataLoader(old, 4), fastload.DataLoader(new, 4))
    report.save_image(tmp_path / "worst.png")
    picture = torch.from_numpy(np.array(Image.open(tmp_path / "worst.png"))).permute(2, 0, 1)
    assert report.worst is not None
    assert report.worst.max_abs_difference is None  # the two cannot be subtracted
    index = report.worst.old_index
    assert torch.equal(picture[:, :, :32], old[index][0])
    assert torch.equal(picture[:, :30, 36:], new[index][0])  # of another size, so there is no difference to draw


def test_where_there_is_nothing_to_draw_it_says_so(evaluation: ImageFolder, tmp_path: Path) -> None:
    equal = fastload.verify(DataLoader(evaluation, 4), DataLoader(evaluation, 4))
    with pytest.raises(ValueError, match="the loaders are equal, so there is no worst sample to draw"):
        equal.save_image(tmp_path / "no.png")
    old, new = (TensorDataset(torch.tensor([value])) for value in (1.0, 2.0))
    with pytest.raises(ValueError, match=r"the worst sample \(batch 0, sample 0, index 0\) is not an image"):
        fastload.verify(DataLoader(old), DataLoader(new)).save_image(tmp_path / "no.png")
    assert list(tmp_path.iterdir()) == []


def test_a_long_epoch_lists_ten_batches_and_keeps_all() -> None:
    old, new = (TensorDataset(torch.full((15,), value)) for value in (1.0, 2.0))
    report = fastload.verify(DataLoader(old), DataLoader(new))
    assert len(report.differences) == 15
    assert len(report.examples) == 3
    assert "... and 5 batches more" in str(report)
