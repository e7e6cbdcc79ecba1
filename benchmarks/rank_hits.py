"""The share of images that the ranks of a machine know in later epochs, each of which gives a rank other images.

    python -m benchmarks.rank_hits                   # one process, then four; epochs of 20 seconds
    python -m benchmarks.rank_hits --ranks 8 --seconds 60

Linux. Every rank is a process with a DistributedSampler that shuffles, and cache="auto": several ranks share one store
on disk. Training is a sleep after each batch, so that an epoch takes the requested time. In every epoch the batches are
compared with those from cache=None; if they differ the run ends with exit status 2.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set
from benchmarks._turns import add_batch

_EPOCHS = 3
_BATCH_SIZE = 4


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if options.child is not None:
        return _run_as_child(options)
    if options.data is None:
        options.data = ensure_sample_set(DEFAULT_FOLDER).root
    lines = []
    for ranks in (1, options.ranks):
        found = known_shares(ranks, options.data, options.seconds, options.samples)
        if found is None:
            return 2
        lines.append((ranks, *(f"{share:.1%}" for share in found)))
    headers = ("processes", *(f"known in epoch {epoch + 1}" for epoch in range(_EPOCHS)))
    print(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))
    return 0


def known_shares(ranks: int, data: Path, seconds: float, samples: int) -> list[float] | None:
    """Returns for each epoch the share of images that were known, over all ranks; None if batches differed."""
    with tempfile.TemporaryDirectory(prefix="fastload-ranks-") as folder:
        variables = {**os.environ, "FASTLOAD_CACHE": f"{folder}/cache", "LOCAL_WORLD_SIZE": str(ranks)}
        command = [sys.executable, "-m", "benchmarks.rank_hits", "--ranks", str(ranks), "--seconds", str(seconds)]
        command += ["--samples", str(samples)]
        children = [
            subprocess.Popen(
                [*command, "--data", str(data), "--meeting", f"{folder}/meeting", "--child", str(rank)],
                env=variables,
                stdout=subprocess.PIPE,
            )
            for rank in range(ranks)
        ]
        outputs = [child.communicate()[0] for child in children]
    if any(child.returncode != 0 for child in children):
        return None
    counts = [json.loads(output) for output in outputs]
    sums = [[sum(rank[epoch][kind] for rank in counts) for kind in range(2)] for epoch in range(_EPOCHS)]
    return [hits / max(1, hits + misses) for hits, misses in sums]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rank_hits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20, help="length of an epoch")
    parser.add_argument("--samples", type=int, default=512, help="samples of all ranks together")
    parser.add_argument("--data", type=Path, help=f"an image folder (default: {DEFAULT_FOLDER})")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meeting", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


# ---- in a child ------------------------------------------------------------------------------------------------------


def _run_as_child(options: argparse.Namespace) -> int:
    import torch.distributed

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{options.meeting}", rank=options.child, world_size=options.ranks
    )
    counts = _epochs(options)
    time.sleep(0.1)  # gloo ends with a lock held that another of its threads may need
    torch.distributed.destroy_process_group()
    if counts is None:
        print(f"error: rank {options.child}: the batches differ", file=sys.stderr)
        return 2
    print(json.dumps(counts))
    return 0


def _epochs(options: argparse.Namespace) -> list[tuple[int, int]] | None:
    """Returns hits and misses of each epoch; None if batches differ."""
    import torch.distributed
    from torch.utils.data import DistributedSampler

    import fastload
    from benchmarks._protocol import LoaderSettings
    from benchmarks.contenders._torch_common import image_folder, pil_transform

    settings = LoaderSettings(str(options.data), "train", _BATCH_SIZE, 1, options.samples)
    dataset = image_folder(settings, pil_transform("train"))
    sampler: Any = DistributedSampler(dataset, options.ranks, options.child, shuffle=True)
    kept, plain = (
        fastload.DataLoader(dataset, _BATCH_SIZE, sampler=sampler, num_workers=1, cache=cache)
        for cache in ("auto", None)
    )
    counts = []
    for epoch in range(_EPOCHS):
        sampler.set_epoch(epoch)
        torch.distributed.barrier()
        before = kept.stats()
        found = _digest(kept, epoch, options.seconds / len(kept))
        after = kept.stats() - before
        counts.append((after.cache_hits, after.cache_misses))
        torch.distributed.barrier()
        # After the epoch that is counted; before it, the comparison would delay it.
        if found != _digest(plain, epoch, 0):
            return None
    return counts


def _digest(loader: Any, seed: int, batch_seconds: float) -> str:
    import torch

    torch.manual_seed(seed)
    digest, begin = hashlib.sha256(), time.monotonic()
    for number, batch in enumerate(loader):
        add_batch(digest, batch)
        time.sleep(max(0.0, begin + (number + 1) * batch_seconds - time.monotonic()))
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
