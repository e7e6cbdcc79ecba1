"""What storage that answers late costs: the loader with and without a delay in front of each file's open().

    python -m benchmarks.storage_latency --delay-ms 2 --workers 8

Linux, with a C compiler: the delay comes from a small library before libc. Both kinds of run have it, are processes of
their own, and take turns; their batches are compared before a figure is shown.
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
from statistics import median
from typing import Any

from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set

_LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef int (*open_function)(const char *, int, ...);

static int is_image(const char *path) {
    const char *suffix = strrchr(path, '.');
    return suffix && (!strcasecmp(suffix, ".jpg") || !strcasecmp(suffix, ".jpeg"));
}

#define OPEN(name)                                                                        \
    int name(const char *path, int flags, ...) {                                          \
        static open_function real;                                                        \
        if (!real) real = (open_function)dlsym(RTLD_NEXT, #name);                          \
        va_list list;                                                                     \
        va_start(list, flags);                                                            \
        const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;           \
        va_end(list);                                                                     \
        const char *delay = is_image(path) ? getenv("STORAGE_DELAY_US") : 0;              \
        if (delay && *delay != '0') usleep((useconds_t)atoi(delay));                      \
        return real(path, flags, mode);                                                   \
    }
OPEN(open)
OPEN(open64)
"""
_IMAGES_PER_EPOCH = 4096


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage_latency", description=__doc__)
    parser.add_argument("--delay-ms", type=float, default=2.0, help="of each file (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5, help="of each kind; medians are shown")
    parser.add_argument("--images", type=int, default=_IMAGES_PER_EPOCH, help="in an epoch (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder with one folder of images per class")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.data is None:
        ensure_sample_set(DEFAULT_FOLDER)
        options.data = DEFAULT_FOLDER
    if options.child:
        print(json.dumps(_measure(str(options.data), options.workers, options.images)))
        return
    with tempfile.TemporaryDirectory() as folder:
        library = _build_library(Path(folder))
        rounds: dict[str, list[dict[str, Any]]] = {"warm": [], "late": []}
        for _ in range(options.rounds):
            rounds["warm"].append(_run_child(library, 0, options))
            rounds["late"].append(_run_child(library, round(options.delay_ms * 1000), options))
    print(format_rounds(rounds, options.delay_ms, options.workers))


def format_rounds(rounds: dict[str, list[dict[str, Any]]], delay_ms: float, workers: int) -> str:
    """Medians and their ratio; exits with a message where the runs did not load the same batches."""
    if len({one["sha256"] for kind in rounds.values() for one in kind}) != 1:
        raise SystemExit("the batches differ: no figure is worth showing")
    warm, late = (median(one["images_per_second"] for one in rounds[kind]) for kind in ("warm", "late"))
    return (
        f"{workers} workers, images/s: {warm:.0f} from the page cache, {late:.0f} with {delay_ms:g} ms for each file: "
        f"{late / warm:.1%}"
    )


def _build_library(folder: Path) -> Path:
    source, library = folder / "delay.c", folder / "delay.so"
    source.write_text(_LIBRARY)
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    return library


def _run_child(library: Path, delay_us: int, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.storage_latency", "--child"]
    command += ["--data", str(options.data), "--workers", str(options.workers), "--images", str(options.images)]
    environment = {**os.environ, "LD_PRELOAD": str(library), "STORAGE_DELAY_US": str(delay_us)}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    measured: dict[str, Any] = json.loads(result.stdout)
    return measured


def _measure(root: str, workers: int, num_images: int) -> dict[str, Any]:
    """Two epochs in this process, the second one timed."""
    from benchmarks._torchvision import load_torchvision

    load_torchvision()
    import torch
    from torchvision import datasets, transforms

    import fastload

    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    dataset = datasets.ImageFolder(root, transforms.Compose(steps))
    dataset.samples = (dataset.samples * (num_images // len(dataset.samples) + 1))[:num_images]
    loader = fastload.DataLoader(dataset, batch_size=64, num_workers=workers, rng="sample", seed=1)
    digest = hashlib.sha256()
    for images, _ in loader:
        digest.update(torch.sum(images, dim=(1, 2, 3)).numpy().tobytes())
    begin = time.perf_counter()
    count = sum(len(labels) for _, labels in loader)
    return {"images_per_second": count / (time.perf_counter() - begin), "sha256": digest.hexdigest()}


if __name__ == "__main__":
    main()
