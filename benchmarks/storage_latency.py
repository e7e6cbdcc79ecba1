"""The cost of storage that answers late: the loader with and without a delay before each file's open().

    python -m benchmarks.storage_latency --delay-ms 2 --workers 8
    python -m benchmarks.storage_latency --delay-ms 2 --workers 8 --cache coefficients

With a cache the delay is before each read of its store instead, and a later epoch is timed.

Linux, with a C compiler: the delay comes from a small library before libc. Both kinds of run have it, have their own
processes, and take turns; their batches are compared before a figure is shown.
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
from typing import Any, Literal

from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set

_LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_image(const char *path) {
    const char *suffix = strrchr(path, '.');
    return suffix && (!strcasecmp(suffix, ".jpg") || !strcasecmp(suffix, ".jpeg"));
}

static void wait_for_storage(void) {
    const char *delay = getenv("STORAGE_DELAY_US");
    if (delay && *delay != '0') usleep((useconds_t)atoi(delay));
}

// A file of a store.
static int is_records(int file) {
    char link[32], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path);
    return length > 4 && !strncmp(path + length - 4, ".dat", 4);
}

#define PREADV(name, offset_type)                                                       \
    ssize_t name(int file, const struct iovec *parts, int count, offset_type offset) {   \
        static ssize_t (*real)(int, const struct iovec *, int, offset_type);             \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);                            \
        if (is_records(file)) wait_for_storage();                                        \
        return real(file, parts, count, offset);                                         \
    }
PREADV(preadv, off_t)
PREADV(preadv64, off64_t)

static int mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; }

#define OPEN(name, all, ...)                                   \
    int name all {                                             \
        static int (*real)();                                  \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);  \
        va_list list;                                          \
        va_start(list, flags);                                 \
        const int mode = mode_of(flags, list);                 \
        va_end(list);                                          \
        if (is_image(path)) wait_for_storage();                \
        return real(__VA_ARGS__, flags, mode);                 \
    }
OPEN(open, (const char *path, int flags, ...), path)
OPEN(open64, (const char *path, int flags, ...), path)
OPEN(openat, (int folder, const char *path, int flags, ...), folder, path)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder, path)
"""
_IMAGES_PER_EPOCH = 4096


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage_latency", description=__doc__)
    parser.add_argument("--delay-ms", type=float, default=2.0, help="delay before each file (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each kind; medians are shown")
    parser.add_argument(
        "--images", type=int, default=_IMAGES_PER_EPOCH, help="images in an epoch (default: %(default)s)"
    )
    parser.add_argument("--cache", choices=("coefficients", "pixels"), help="pixels: with the steps of evaluation")
    parser.add_argument("--data", type=Path, help="folder with one folder of images per class")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.data is None:
        ensure_sample_set(DEFAULT_FOLDER)
        options.data = DEFAULT_FOLDER
    if options.child:
        print(json.dumps(_measure(str(options.data), options.workers, options.images, options.cache)))
        return
    with tempfile.TemporaryDirectory() as folder:
        library = _build_library(Path(folder))
        rounds: dict[str, list[dict[str, Any]]] = {"warm": [], "late": []}
        for _ in range(options.rounds):
            rounds["warm"].append(_run_child(library, 0, options))
            rounds["late"].append(_run_child(library, round(options.delay_ms * 1000), options))
    print(format_rounds(rounds, options.delay_ms, options.workers))


def format_rounds(rounds: dict[str, list[dict[str, Any]]], delay_ms: float, workers: int) -> str:
    """Returns medians and their ratio; exits with a message if the runs did not load the same batches."""
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
    options = ["-std=gnu11", "-O2", "-shared", "-fPIC"]
    subprocess.run([os.environ.get("CC", "cc"), *options, str(source), "-o", str(library), "-ldl"], check=True)
    return library


def _run_child(library: Path, delay_us: int, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.storage_latency", "--child"]
    command += ["--data", str(options.data), "--workers", str(options.workers), "--images", str(options.images)]
    command += [] if options.cache is None else ["--cache", options.cache]
    environment = {**os.environ, "LD_PRELOAD": str(library), "STORAGE_DELAY_US": str(delay_us)}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    measured: dict[str, Any] = json.loads(result.stdout)
    return measured


def _measure(
    root: str, workers: int, num_images: int, kept: Literal["coefficients", "pixels"] | None
) -> dict[str, Any]:
    """Runs three epochs in this process, the last one timed."""
    from benchmarks._torchvision import load_torchvision

    load_torchvision()
    import torch
    from torchvision import datasets, transforms

    import fastload

    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    if kept == "pixels":
        steps = [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()]
    dataset = datasets.ImageFolder(root, transforms.Compose(steps))
    dataset.samples = (dataset.samples * (num_images // len(dataset.samples) + 1))[:num_images]
    with tempfile.TemporaryDirectory() as folder:
        store = None if kept is None else fastload.Cache(folder, "4GiB", what=kept)
        loader = fastload.DataLoader(
            dataset, batch_size=64, num_workers=workers, rng="sample", seed=1, cache=store or "auto"
        )
        if store is not None:
            store.fill(loader, progress=False)
        digest = hashlib.sha256()
        for _ in range(2):
            for images, _ in loader:
                digest.update(torch.sum(images, dim=(1, 2, 3)).numpy().tobytes())
        begin = time.perf_counter()
        count = sum(len(labels) for _, labels in loader)
        seconds = time.perf_counter() - begin
        if kept is not None and getattr(loader.stats(), f"cache_{kept.removesuffix('s')}_hits") < 0.9 * count:
            raise SystemExit("few images came from the cache: files younger than a minute are not kept")
    return {"images_per_second": count / seconds, "sha256": digest.hexdigest()}


if __name__ == "__main__":
    main()
