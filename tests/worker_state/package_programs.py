"""Programs that keep or use objects of other packages, most of which are compiled."""

from __future__ import annotations

import logging
from typing import Any

import torchvision_shim  # noqa: F401
from numbered import NUM_SAMPLES, Numbered
from program import Chapter, Setting, Transformed, new_folder

PACKAGES = Chapter()


@PACKAGES.needing("pandas")
def a_pandas_frame() -> Any:
    """Reads and writes a data frame in the samples."""
    import pandas as pd

    frame = pd.DataFrame({"name": [f"n{index}" for index in range(NUM_SAMPLES)], "count": 0})

    def transform(index: int) -> Any:
        frame.loc[index % 5, "count"] += 1
        return frame["name"].iloc[index], int(frame["count"].sum())

    return Setting(Transformed(transform), after_epoch=lambda: int(frame["count"].sum()))


@PACKAGES.needing("lmdb")
def a_lazily_opened_lmdb() -> Any:
    """Calls self.env = lmdb.open(...) in the first sample of each worker."""
    import lmdb

    folder = str(new_folder())
    with lmdb.open(folder) as environment, environment.begin(write=True) as transaction:
        for index in range(NUM_SAMPLES):
            transaction.put(str(index).encode(), f"value {index}".encode())

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.env: Any = None
            self.opened = 0

        def sample(self, index: int) -> Any:
            if self.env is None:
                self.env = lmdb.open(folder, readonly=True, lock=False, readahead=False, meminit=False)
                self.opened += 1
            with self.env.begin() as transaction:
                return transaction.get(str(index).encode()).decode(), self.opened

    data = Data()
    return Setting(data, after_epoch=lambda: data.env is None)


@PACKAGES.program
def a_logger() -> Any:
    """Uses a logger and a counting handler that nothing else has."""

    class Counting(logging.Handler):
        def __init__(self) -> None:
            super().__init__()
            self.records = 0

        def emit(self, _record: Any) -> None:
            self.records += 1

    handler = Counting()
    logger = logging.Logger("samples")  # not in the registry
    logger.addHandler(handler)

    def transform(index: int) -> Any:
        logger.warning("sample %s", index)
        return handler.records

    return Setting(Transformed(transform), after_epoch=lambda: handler.records)


@PACKAGES.needing("transformers")
def a_tokenizer() -> Any:
    """Uses a tokenizer written in Rust, with a padding set once."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(["[UNK]", "[PAD]", "one", "two", "three"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=5)
    return Transformed(lambda index: tokenizer.encode(" ".join(["one", "two", "five"][: index % 4])).ids)
