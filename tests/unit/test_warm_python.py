"""Children forked from a warm process end, write and fail like separate interpreters."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest
from children import RunChild
from warm_python import WarmPython

WARM_OR_NOT = pytest.mark.parametrize("warm", [True, False])


@WARM_OR_NOT
def test_a_program_is_the_main_module_in_an_empty_folder_and_a_session_of_its_own(
    run_child: RunChild, tmp_path: Path, warm: bool
) -> None:
    result = run_child(
        """
        import os, sys, threading
        print(__name__, os.getcwd(), os.getsid(0) == os.getpid(), sys.argv, threading.active_count())
        print(os.environ.get("ADDED"), os.environ.get("HOME"))
        class Own: pass
        print(sys.modules["__main__"].Own is Own, "recipes" in globals())
        print({"torch", "torchvision", "fastload", "recipes"} <= set(sys.modules), len(os.listdir("/proc/self/task")))
        """,
        env={"ADDED": "yes", "HOME": None},
        warm=warm,
    )
    assert result.stdout == f"__main__ {tmp_path} True ['-c'] 1\nyes None\nTrue False\n{warm} 1\n"
    assert result.stderr == ""


@WARM_OR_NOT
@pytest.mark.parametrize(
    ("code", "status", "stdout", "stderr"),
    [
        ("import sys; print('out'); print('err', file=sys.stderr)", 0, "out\n", "err\n"),
        ("import atexit, sys; atexit.register(print, 'last'); sys.exit(3)", 3, "last\n", ""),
        ("import os; os._exit(4)", 4, "", ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "", ""),
        ("raise SystemExit('a word')", 1, "", "a word\n"),
        ("import threading\nthreading.Thread(target=lambda: print('thread')).start()", 0, "thread\n", ""),
        ("import os\nif os.fork() == 0: print('child')", 0, "child\n", ""),
    ],
)
def test_its_exit_code_and_output_are_returned(
    run_child: RunChild, warm: bool, code: str, status: int, stdout: str, stderr: str
) -> None:
    result = run_child(code, check=False, warm=warm)
    assert (result.returncode, result.stdout, result.stderr) == (status, stdout, stderr)


@WARM_OR_NOT
def test_an_exception_that_nobody_catches_is_written_and_fails_the_test(run_child: RunChild, warm: bool) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"(?s)the child ended with 1.*ZeroDivisionError: division by zero"):
        run_child("1 / 0", warm=warm)


@WARM_OR_NOT
@pytest.mark.parametrize("begin_child", ["pass", "os.setsid()"])
def test_one_that_does_not_end_is_killed_with_what_it_has_started(
    run_child: RunChild, begin_child: str, warm: bool
) -> None:
    code = f"""
    import os, time
    pid = os.fork()
    if pid: print("begun", pid, flush=True)
    else: {begin_child}
    time.sleep(60)
    """
    begin = time.monotonic()
    with pytest.raises(pytest.fail.Exception, match=r"(?s)did not end within 3 s.*begun \d+") as failed:
        run_child(code, timeout=3, warm=warm)
    assert time.monotonic() - begin < 20
    pid = int(str(failed.value).partition("begun ")[2].split()[0])
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
            assert time.monotonic() - begin < 20
    assert run_child("print('next')", warm=warm).stdout == "next\n"


def test_the_server_has_ended_after_close(tmp_path: Path) -> None:
    python = WarmPython()
    assert python.run("print(3)", tmp_path, 20, dict(os.environ)).stdout == "3\n"
    with pytest.raises(subprocess.TimeoutExpired) as late:
        python.run("import time; print(5, flush=True); time.sleep(60)", tmp_path, 3, dict(os.environ))
    assert late.value.output == "5\n"
    python.close()
    assert python._process.returncode == 0
