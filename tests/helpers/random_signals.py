"""Imported by children of the campaign "signals": exceptions out of handlers, over a loader made at random."""

from __future__ import annotations

import gc
import random

from fault_loaders import digest, make_case
from held import settle, settled
from signal_exceptions import losses


def run_case(seed: int) -> None:
    """Raises AssertionError if an exception has lost or changed a batch, or has leaked something."""
    case = make_case(seed)
    choose = random.Random(seed + 1)
    for number in range(case.num_epochs):  # what is made once in a process is made
        list(case.begin(number))
    case.drop()
    gc.collect()
    before = settled()
    longest_seconds = choose.choice([0.0002, 0.0005, 0.002])
    num_lost = losses(case.begin, digest, 60, longest_seconds, num_epochs=case.num_epochs, seed=seed, drop=case.drop)
    assert num_lost == 0, (num_lost, case)
    case.drop()
    gc.collect()
    assert (now := settle(before)) == before, (now, before, case)
