"""A folder is listed with the threads that the system grants, and without any."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from children import RunChild
from folder_trees import assert_like_torchvision, make_tree

from fastload.sources import _folder_scan
from fastload.sources._folder_index import read_folder
from fastload.sources._image_folder import IMG_EXTENSIONS

NAMES = [f"c{number:03}/{name}" for number in range(50) for name in ("1.jpg", "sub/2.jpg")]


@pytest.mark.smoke
@pytest.mark.parametrize("num_given", [0, 1, 3])
def test_refused_threads_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_given: int) -> None:
    root = make_tree(tmp_path / "data", NAMES)
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_folder_scan, "SETTLED_AFTER_NS", 0)
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def refuse(self: threading.Thread) -> Any:
        if len(started) == num_given:
            raise RuntimeError("can't start new thread")
        started.append(self)
        return start(self)

    for expected in (101, 0):  # directories listed: all, then none, because their times are unchanged
        started.clear()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            assert read_folder(str(root), IMG_EXTENSIONS, "auto").num_listed == expected
        assert len(started) == num_given
        assert not any(thread.is_alive() for thread in started)
        assert_like_torchvision(root)


def test_a_folder_is_listed_where_no_process_may_be_started(run_child: RunChild) -> None:
    run_child(
        f"""
        import os, resource, shutil, tempfile, threading, warnings
        from pathlib import Path
        import folder_trees
        from fastload.sources import _folder_scan
        if os.getuid() == 0:  # whom the limit does not hold
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        _folder_scan.SETTLED_AFTER_NS = 0
        top = Path(tempfile.mkdtemp())
        try:
            os.environ["FASTLOAD_CACHE"] = str(top / "cache")
            root = folder_trees.make_tree(top / "data", {NAMES!r})
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            try:
                threading.Thread(target=print).start()
            except RuntimeError:
                pass
            else:
                raise SystemExit("the limit holds nobody")
            warnings.simplefilter("error")
            for _ in range(2):
                folder_trees.assert_like_torchvision(root)
        finally:
            shutil.rmtree(top)
    """,
        warm=True,
    )
