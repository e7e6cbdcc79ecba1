"""A fastload.DataLoader whose samples end in Python, also if all of the pipeline is native."""

from __future__ import annotations

from typing import Any, Literal

import torch.utils.data
from torch.utils.data import Dataset

import fastload
from fastload._iteration._iterator import EpochIterator
from fastload._loader._current import CurrentLoader
from fastload._loader._iterators import python_iterator
from fastload._planning._plan import LoaderPlan
from fastload._planning._verdicts import Mode, StageVerdict
from fastload.sources._lowering import lower_dataset
from fastload.transforms._lowering import lower_transform


class PythonPartLoader(fastload.DataLoader[Any]):
    """The first `num_native` transforms run in native code, the others in Python, in threads or in the caller."""

    def __init__(
        self, dataset: Dataset[Any], num_native: int = 0, rng: Literal["torch", "sample"] = "torch", **arguments: Any
    ) -> None:
        self.num_native = num_native
        super().__init__(dataset, rng=rng, **arguments)

    def _get_iterator(self) -> EpochIterator:
        source = lower_dataset(self.dataset)
        lowered = lower_transform(source.transforms[0])
        assert sum(stage.problem is None for stage in lowered.stages) == self.num_native, lowered.stages
        verdict = StageVerdict("transform", "as the test says", None, Mode.PARTLY_NATIVE)
        plan = LoaderPlan((verdict,), self.rng, source, lowered)
        now = CurrentLoader(self)
        return python_iterator(now, now.setup(plan, None), begins_natively=True)


def torch_loader(dataset: Dataset[Any], **arguments: Any) -> torch.utils.data.DataLoader[Any]:
    """Returns the oracle: torch's own loader, whose workers are forked, so that closures reach them."""
    if arguments.get("num_workers"):
        arguments["multiprocessing_context"] = "fork"
    return torch.utils.data.DataLoader(dataset, **arguments)
