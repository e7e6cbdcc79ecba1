"""Signals that come while worker processes start reach the program, whichever thread the system gives them to."""

from __future__ import annotations

import pytest
from children import RunChild

# Python ignores exceptions of these hooks. `press` runs in the middle of one, and Python's handlers after it.
PROGRAM = """
import os, signal, sys, threading, time
import fastload
from numbered import Numbered

threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # takes signals that the main thread blocks
ignored = []
sys.unraisablehook = ignored.append

def hook():
    if press := presses.pop("hook", None):
        press()
        for _ in range(1000):
            time.sleep(0)

presses = {{}}
os.register_at_fork(**{{{moment!r}: hook}})
loader = fastload.DataLoader(Numbered(), 2, num_workers=2, workers="processes")
list(loader)
"""
MOMENTS = pytest.mark.parametrize("moment", ["before", "after_in_parent"])


@MOMENTS
def test_a_press_in_the_hooks_of_a_fork_is_raised(run_child: RunChild, moment: str) -> None:
    result = run_child(
        PROGRAM.format(moment=moment)
        + """
presses["hook"] = lambda: os.kill(os.getpid(), signal.SIGINT)
try:
    iter(loader)
    print("went on")
except KeyboardInterrupt:
    print("raised", len(ignored), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print(len(list(loader)), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    )
    assert result.stdout == "raised 0 True\n12 set()\n"


@MOMENTS
def test_handlers_of_the_program_are_called_once_for_each_signal(run_child: RunChild, moment: str) -> None:
    result = run_child(
        PROGRAM.format(moment=moment)
        + """
seen = []
for number in (signal.SIGALRM, signal.SIGTERM):
    signal.signal(number, lambda number, frame: seen.append(number))

def press():
    os.kill(os.getpid(), signal.SIGALRM)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGWINCH)  # has no handler
    assert not seen

presses["hook"] = press
print(len(list(loader)), sorted(seen) == [signal.SIGALRM, signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
print(seen[2:] == [signal.SIGTERM])
"""
    )
    assert result.stdout == "12 True\nTrue\n"


def test_a_handler_that_is_set_meanwhile_stays(run_child: RunChild) -> None:
    result = run_child(
        PROGRAM.format(moment="before")
        + """
presses["hook"] = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
print(len(list(loader)))
os.kill(os.getpid(), signal.SIGINT)
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""
    )
    assert result.stdout == "12\nTrue\n"


def test_two_threads_hold_a_signal_until_both_let_it_go(run_child: RunChild) -> None:
    result = run_child(
        """
        import os, signal, threading
        from fastload._native import HeldSignals

        seen = []
        signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
        are_two, is_first_over, is_pressed = threading.Event(), threading.Event(), threading.Event()

        def hold():
            with HeldSignals([signal.SIGALRM]):
                are_two.set()
                is_first_over.wait()
                os.kill(os.getpid(), signal.SIGALRM)
                is_pressed.set()

        thread = threading.Thread(target=hold)
        with HeldSignals([signal.SIGALRM]):
            thread.start()
            are_two.wait()
        is_first_over.set()
        is_pressed.wait()
        thread.join()
        print(len(seen))
        """
    )
    assert result.stdout == "1\n"


def test_a_forked_child_has_the_programs_handlers_and_no_signal_of_its_parent(run_child: RunChild) -> None:
    result = run_child(
        """
        import os, signal
        from fastload._native import HeldSignals

        seen = []
        signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        held = HeldSignals([signal.SIGALRM])
        os.kill(os.getpid(), signal.SIGALRM)
        if (pid := os.fork()) == 0:
            before = list(seen)
            os.kill(os.getpid(), signal.SIGALRM)  # blocked, as in its parent
            between = list(seen)
            held.__exit__()
            os._exit(10 * len(before) + 5 * len(between) + len(seen))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(seen))
        held.__exit__()
        print(len(seen))
        """
    )
    assert result.stdout == "1 0\n1\n"


def test_workers_block_what_the_program_blocks(run_child: RunChild) -> None:
    result = run_child(
        """
        import signal
        from torch.utils.data import DataLoader
        import fastload

        class Blocked:
            def __len__(self):
                return 1

            def __getitem__(self, index):
                return str(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))))

        for number in (signal.SIGUSR1, signal.SIGALRM):
            signal.signal(number, lambda number, frame: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2})
        loaders = DataLoader(Blocked(), num_workers=1), fastload.DataLoader(Blocked(), num_workers=1)
        torchs, ours = map(list, loaders)
        print(ours == torchs, ours)
        """
    )
    assert result.stdout == "True [['[2, 10, 12]']]\n"
