"""The rows of the comparison: their images, their work, and their numbers of workers."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks._protocol import LoaderSettings


@dataclass(frozen=True)
class Row:
    """One comparison: every contender does the same work in the same rounds.

    Attributes:
        settings: the loaders' settings; the number of workers is replaced by each of `workers`.
        workers: numbers of workers, each of which every contender is timed with.
        repeats: timed rounds per contender and number of workers, after one that is not timed.
        measures_first_batch: whether to time fresh loaders up to their first batch as well.
    """

    name: str
    settings: LoaderSettings
    workers: tuple[int, ...] = (1,)
    repeats: int = 5
    measures_first_batch: bool = False


@dataclass(frozen=True)
class RowKind:
    """A row before the folder of its images is known. `sample_set` is a key of `_sample_set.RECIPES`."""

    mode: str
    sample_set: str = "imagenet"
    output: str = "float32"
    batch_size: int = 64
    workers: tuple[int, ...] = (1,)
    repeats: int = 3
    measures_first_batch: bool = False


ROW_KINDS = {
    "train": RowKind("train", workers=(1, 2), repeats=5, measures_first_batch=True),
    "eval": RowKind("eval", workers=(1, 2), repeats=5, measures_first_batch=True),
    "train-uint8": RowKind("train", output="uint8"),
    "eval-uint8": RowKind("eval", output="uint8"),
    "train-bfloat16": RowKind("train", output="bfloat16"),
    "eval-bfloat16": RowKind("eval", output="bfloat16"),
    # Batches as small as for large pictures; an epoch still has several.
    "train-photos": RowKind("train", "photos", batch_size=16),
    "eval-photos": RowKind("eval", "photos", batch_size=16),
    "train-progressive": RowKind("train", "progressive"),
    "eval-progressive": RowKind("eval", "progressive"),
    "decode": RowKind("decode", output="uint8", batch_size=1),
    "decode-photos": RowKind("decode", "photos", "uint8", batch_size=1),
    "decode-progressive": RowKind("decode", "progressive", "uint8", batch_size=1),
}

# Not among "all": each is a table of its own, by the module of its name, without contenders.
USER_DATASETS = "user_datasets"
TRAINER_DELAY = "trainer_delay"
SECOND_EPOCH = "second_epoch"
OWN_TABLES = (USER_DATASETS, TRAINER_DELAY, SECOND_EPOCH)

DEFAULT_ROWS = ("train", "eval")
