"""Machines without a GPU, and processes that do not use one."""

from __future__ import annotations

import pickle

import pytest
import torch
from children import RunChild
from devices import assert_same, host_batches
from torch.utils.data import TensorDataset
from torchvision.datasets import ImageFolder

import fastload

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.mark.parametrize("cuda", [torch.version.cuda, "13.0"], ids=["this build", "a build with CUDA"])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", ["cuda", "cuda:1", 0, torch.device("cuda")])
@pytest.mark.parametrize("kind", ["native", "python"])
def test_a_gpu_that_is_not_there_is_one_sentence_and_the_loader_goes_on_without(
    monkeypatch: pytest.MonkeyPatch,
    still_images: ImageFolder,
    num_workers: int,
    name: object,
    kind: str,
    cuda: str | None,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    dataset = still_images if kind == "native" else TensorDataset(torch.rand(14, 3), torch.arange(14))
    loader = fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers, device=name)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"^device='cuda(:\d)?' needs a .*, or leave device out$") as raised:
            iter(loader)
        assert "\n" not in str(raised.value)
    loader.device = None
    assert_same(host_batches(dataset, batch_size=4), list(loader))


def test_a_loader_with_a_device_can_be_sent_to_a_machine_that_has_it(still_images: ImageFolder) -> None:
    loader = fastload.DataLoader(still_images, batch_size=4, device="cuda:1", device_prefetch=3)
    copied = pickle.loads(pickle.dumps(loader))
    assert (copied.device, copied.device_prefetch) == ("cuda:1", 3)
    assert "cuda:1: pixels are copied" in copied.explain()


def test_importing_and_making_a_loader_uses_no_device_and_loads_no_library(run_child: RunChild) -> None:
    run_child(
        """
        import torch

        def loaded():
            names = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
            return {name for name in names if "cuda" in name or "nvidia" in name}

        before = loaded()
        calls = []
        for name in ("init", "_lazy_init", "is_available", "device_count", "current_device", "Stream"):
            setattr(torch.cuda, name, lambda *_, name=name, **__: calls.append(name))
        import fastload
        dataset = torch.utils.data.TensorDataset(torch.rand(3))
        fastload.DataLoader(dataset, device="cuda", device_prefetch=1)
        assert not calls, calls
        assert {name for name in loaded() - before if "fastload" not in name} == set()
        """
    )
