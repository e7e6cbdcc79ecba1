"""Shared by all tests: a torchvision that imports, the corpora, and children with a time limit."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import PIL
import pytest
import repository_path  # noqa: F401
import tiers
import torch
import torch.utils.data
import torchvision_shim  # noqa: F401
from children import RunChild
from image_folders import make_mixed_folder
from process_tree import kill_tree
from warm_python import WarmPython

import fastload

pytest.register_assert_rewrite("both_loaders", "lowered_transforms")

TESTS = Path(__file__).resolve().parent

# A shell without job control starts background jobs with interrupts ignored, and their children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Threads are compared with torch's worker processes, and the tests' data sets cannot be pickled, so the processes must
# be forked. Python 3.14 has another default.
if sys.version_info >= (3, 14):
    multiprocessing.set_start_method("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", default="all", help="one of " + ", ".join(tiers.TIERS) + "; see tests/tiers.py")


@pytest.hookimpl(tryfirst=True)  # before -k and -m, so that the choice does not depend on them
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.select(config.getoption("--tier"), items, lambda left: config.hook.pytest_deselected(items=left))
    for item in items:
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group("alone"))
        elif item.get_closest_marker("slow") or tiers.suite_of(item.path).is_smoke:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))  # what they build, they build once


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests that must not run at the same time have gone to one process, or there is no run."""
    gc.collect()
    gc.freeze()  # no collection looks at the many collected tests again
    if not session.config.getoption("loadgroup", False):
        return
    apart = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
    if apart:
        raise pytest.UsageError(
            f"this pytest-xdist keeps no groups together with pytest {pytest.__version__}, as {apart[0].nodeid} needs: "
            "install the versions in tests/requirements.txt"
        )


def pytest_report_header() -> list[str]:
    return [
        f"torch {torch.__version__}, Pillow {PIL.__version__}, fastload from {Path(fastload.__file__).parent}",
        str(fastload.build_info()),
    ]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        (pytest.fail if os.environ.get("FASTLOAD_REQUIRE_CUDA") == "1" else pytest.skip)("torch finds no CUDA device")


@pytest.fixture(scope="session", autouse=True)
def _own_cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the tests' index files out of the user's cache folder."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _impatient_torch() -> Iterator[None]:
    """Shortens torch's wait of 5 s for worker processes that do not end by themselves, as after an exception."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.5)
        yield


@pytest.fixture
def believed_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes torch say that there is a CUDA device. The device itself answers nothing."""
    if not hasattr(torch, "accelerator"):
        pytest.skip("torch before 2.6 has no torch.accelerator to make believe")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Returns the folder of third-party test images: $FASTLOAD_CORPORA, else shared/corpora beside the repository."""
    folder = Path(os.environ.get("FASTLOAD_CORPORA", TESTS.parent.parent / "shared" / "corpora"))
    if not (folder / "MANIFEST.tsv").exists():
        pytest.skip(f"no test images in {folder}; name their folder in FASTLOAD_CORPORA")
    return folder


@pytest.fixture(scope="session")
def mixed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes clean JPEGs and files of every other kind, which Pillow decodes."""
    return make_mixed_folder(tmp_path_factory.mktemp("mixed"))


@pytest.fixture
def no_thread_switches() -> Iterator[None]:
    """Lets a thread that holds the GIL keep it until it releases it."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """Starts a warm process when the first child asks for one."""
    python = WarmPython()
    yield python
    python.close()


@pytest.fixture
def run_child(tmp_path: Path, request: pytest.FixtureRequest) -> RunChild:
    """Runs Python code in a process of its own and returns it; a child that fails or hangs fails the test.

    Args of the returned function:
        code: dedented and run with `python -c` in an empty folder; modules in tests/helpers are importable.
        timeout: seconds until the child and all it started are killed.
        env: variables to add to this process's; a value of None removes one.
        check: whether an exit status other than 0 fails the test.
        warm: whether torch, torchvision and fastload may be imported already, which takes seconds; or the process in
            which they are. Not for what an import or a new interpreter does, or for variables that are read then.
    """

    def run(
        code: str,
        timeout: float = 60,
        env: dict[str, str | None] | None = None,
        check: bool = True,
        warm: bool | WarmPython = False,
    ) -> subprocess.CompletedProcess[str]:
        variables: dict[str, str | None] = {**os.environ, **(env or {})}
        paths = [variables.get("PYTHONPATH"), str(TESTS), str(TESTS / "helpers")]
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        environment = {name: value for name, value in variables.items() if value is not None}
        python = request.getfixturevalue("warm_python") if warm is True else warm
        start = python.run if python else run_python
        try:
            result = start(textwrap.dedent(code), tmp_path, timeout, environment)
        except subprocess.TimeoutExpired as late:
            pytest.fail(f"the child did not end within {timeout} s\nstdout: {late.output}\nstderr: {late.stderr}")
        if check and result.returncode != 0:
            pytest.fail(f"the child ended with {result.returncode}\nstdout: {result.stdout}\nstderr: {result.stderr}")
        return result

    return run


def run_python(code: str, cwd: Path, timeout: float, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Does what WarmPython.run does, with a new interpreter."""
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    # A session, so that what the child started can be killed with it.
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=cwd, env=env, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            output, errors = process.communicate()
            raise subprocess.TimeoutExpired(command, timeout, output, errors) from None
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
