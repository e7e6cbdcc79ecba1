"""device_transform: when, where and in which order it is called. And what is refused of the device's arguments."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from devices import DeviceUnderTest, Fake, assert_same, host_batches, read_all, read_batches, values
from torch.utils.data import TensorDataset
from torchvision.transforms import v2

import fastload

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


@WORKERS
def test_it_is_called_once_for_each_batch_in_order_by_who_asks_on_fastloads_stream(
    by_hand: Fake, dataset: Any, num_workers: int
) -> None:
    calls = []

    def transform(batch: Any) -> Any:
        calls.append((threading.get_ident(), by_hand.handle.current_stream, batch[1].tolist()))
        return batch

    arguments = {"batch_size": 4, "num_workers": num_workers}
    expected = host_batches(dataset, **arguments)
    loader = fastload.DataLoader(dataset, device=by_hand.handle, device_transform=transform, **arguments)
    for number, _ in enumerate(loader):
        assert len(calls) == number + 1  # not ahead
    assert calls == [(threading.get_ident(), by_hand.handle.copy_stream, labels.tolist()) for _, labels in expected]
    assert by_hand.handle.current_stream == by_hand.handle.default_stream


@WORKERS
@pytest.mark.parametrize("kind_of_mix", [v2.MixUp, v2.CutMix])
def test_mixup_and_cutmix_of_torchvision_give_what_they_give_on_the_host(
    device: DeviceUnderTest, dataset: Any, num_workers: int, kind_of_mix: Any
) -> None:
    mix = kind_of_mix(alpha=0.7, num_classes=3)
    arguments = {"batch_size": 4, "num_workers": num_workers}
    torch.manual_seed(3)
    expected = [list(mix(*batch)) for batch in fastload.DataLoader(dataset, **arguments)]
    torch.manual_seed(3)
    loader = fastload.DataLoader(
        dataset, device=device.handle, device_transform=lambda batch: list(mix(*batch)), **arguments
    )
    found = read_batches(device, loader)
    if isinstance(device, Fake):
        assert_same(expected, found)
    else:  # the same draws; products and sums may be fused there
        torch.testing.assert_close(found, expected)
    assert found[0][1].shape == (4, 3)


@WORKERS
@pytest.mark.parametrize("has_device", [False, True])
def test_its_exception_is_nexts_and_the_next_batch_comes(
    by_hand: Fake, dataset: Any, num_workers: int, has_device: bool
) -> None:
    arguments = {"batch_size": 5, "num_workers": num_workers}
    expected = host_batches(dataset, **arguments)
    num_calls = 0

    def transform(batch: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 2:
            raise ZeroDivisionError("of the transform")
        return batch

    device = by_hand.handle if has_device else None
    iterator = iter(fastload.DataLoader(dataset, device=device, device_transform=transform, **arguments))
    first = read_all(by_hand, next(iterator))
    with pytest.raises(ZeroDivisionError, match="of the transform"):
        next(iterator)
    assert by_hand.handle.current_stream == by_hand.handle.default_stream
    assert_same([expected[0], expected[2]], values(by_hand, [first, read_all(by_hand, next(iterator))]))
    assert next(iterator, None) is None


@WORKERS
@pytest.mark.parametrize("device", [None, "cpu"])
def test_without_a_device_it_gets_the_batch_on_the_host(dataset: Any, num_workers: int, device: str | None) -> None:
    arguments = {"batch_size": 5, "num_workers": num_workers}
    expected = [{"sum": images.sum(), "labels": labels} for images, labels in host_batches(dataset, **arguments)]
    loader = fastload.DataLoader(
        dataset, device=device, device_transform=lambda batch: {"sum": batch[0].sum(), "labels": batch[1]}, **arguments
    )
    assert "device_transform: called with each batch" in loader.explain()
    assert_same(expected, list(loader))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        *(
            ({"device": device}, r"device must be a GPU \('cuda', 'cuda:1', 1\) or the host .* got ")
            for device in ("nonsense", "mps", "meta", True, 1.5, -1, "cuda:-2")
        ),
        *(
            (
                {"device": "cuda", "device_prefetch": number},
                r"device_prefetch must be None or an int from 1 to 1048576, got ",
            )
            for number in (0, -1, True, 1.5, "2")
        ),
        ({"device_prefetch": 2}, r"device_prefetch=2 needs a device: add device='cuda' or leave it out"),
        ({"device_transform": "mixup"}, "device_transform must be callable, got 'mixup'"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        fastload.DataLoader(TensorDataset(torch.rand(3)), **arguments)
