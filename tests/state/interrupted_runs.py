"""Imported by children: a loader that is interrupted before any line of next(), then saved and resumed."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from line_interrupts import InterruptAt
from resumed_runs import Case, batch_of, program_states, seed_program, set_program_states
from stream_runs import StreamCase

# A checkpoint has to be written before a cluster kills the job.
MOST_SECONDS = 1.0


def save_where_interrupted(case: Case | StreamCase, stride: int) -> int:
    """Interrupts the second next() before every stride-th of its lines in turn; returns about how many it has."""
    folder = Path(os.environ["FASTLOAD_TEST_FOLDER"])
    torch.set_num_threads(1)
    seed_program(3)
    whole = [batch_of(*batch) for batch in case.make_loader(folder)]
    for number in range(1, 4000, stride):
        seed_program(3)
        loader = case.make_loader(folder)
        iterator = iter(loader)
        received = [batch_of(*next(iterator))]
        interrupt = InterruptAt(number)
        sys.settrace(interrupt)
        try:
            received.append(batch_of(*next(iterator)))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        begin = time.monotonic()
        state, program = loader.state_dict(), program_states()
        assert time.monotonic() - begin < MOST_SECONDS
        assert state["fastload"]["position"] == len(received), (interrupt.where, number)
        again = case.make_loader(folder)
        again.load_state_dict(state)
        set_program_states(program)
        rest = [batch_of(*batch) for batch in again]
        assert received + rest == whole, (interrupt.where, number)
        if interrupt.where is None:
            return number - 1
    raise AssertionError("next() has more lines than that")


def save_in_handlers_exception(case: Case, signal_number: int) -> None:
    """Raises in a signal handler, as for a cluster's preemption, while next() waits."""

    class PreemptedError(Exception):
        pass

    def preempt(*_: Any) -> None:
        raise PreemptedError

    folder = Path(os.environ["FASTLOAD_TEST_FOLDER"])
    signal.signal(signal_number, preempt)
    seed_program(3)
    whole = [batch_of(*batch) for batch in case.make_loader(folder)]
    for delay in (0.0, 0.001, 0.004, 0.02):
        seed_program(3)
        loader, received = case.make_loader(folder), []
        try:
            for batch in loader:
                received.append(batch_of(*batch))
                signal.setitimer(signal.ITIMER_REAL, 0)
                if len(received) == 2:
                    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal_number))
                    signal.setitimer(signal.ITIMER_REAL, delay or 1e-6)
            os.kill(os.getpid(), signal_number)
        except PreemptedError:
            signal.setitimer(signal.ITIMER_REAL, 0)
        state = loader.state_dict()
        again = case.make_loader(folder)
        again.load_state_dict(state)
        ours = state["fastload"]
        position = ours["position"] if ours["moment"] == "in an epoch" else len(whole)
        assert position - len(received) in (0, 1), "the batch may have come, and the handler raised behind next()"
        if position < len(whole):
            assert [batch_of(*batch) for batch in again] == whole[position:]
