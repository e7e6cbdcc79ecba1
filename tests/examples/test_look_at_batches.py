"""examples/look_at_batches.ipynb: its cells run, draw and print what the text says; none of it is committed."""

from __future__ import annotations

import base64
import io
import os
from typing import Any

import numpy as np
import pytest
from example_runner import EXAMPLES
from loopback import need_loopback
from PIL import Image

REASON = "needs nbformat, nbclient, ipykernel and matplotlib, see the requirements.txt of tests and benchmarks"
NOTEBOOK = EXAMPLES / "look_at_batches.ipynb"
PATH = [str(EXAMPLES.parent / "tests" / "helpers"), *filter(None, [os.environ.get("PYTHONPATH")])]


def read() -> Any:
    nbformat = pytest.importorskip("nbformat", reason=REASON)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    return notebook


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Returns the cells' output in order: texts, and pictures as arrays."""
    notebook = read()
    nbclient = pytest.importorskip("nbclient", reason=REASON)
    nbformat = pytest.importorskip("nbformat", reason=REASON)
    pytest.importorskip("ipykernel", reason=REASON)
    pytest.importorskip("matplotlib", reason=REASON)
    need_loopback()
    folder = tmp_path_factory.mktemp("kernel")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
            monkeypatch.setenv(name, str(folder / name))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(PATH))
        monkeypatch.delenv("IMAGES", raising=False)
        notebook.cells.insert(0, nbformat.v4.new_code_cell("import torchvision_shim"))
        client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(EXAMPLES)}})
        client.execute()
    return [content_of(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def content_of(output: Any) -> Any:
    if output.output_type == "stream":
        return output.text
    picture = base64.b64decode(output.data["image/png"])
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def test_no_output_is_committed() -> None:
    cells = [cell for cell in read().cells if cell.cell_type == "code"]
    assert len(cells) >= 5
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    assert NOTEBOOK.stat().st_size < 20_000
    assert "shim" not in NOTEBOOK.read_text()


def test_its_loader_is_native_and_its_batch_is_that_of_torchs_loader(shown: list[Any]) -> None:
    num_files, explained, equal, native = (content for content in shown if isinstance(content, str))
    count = len(list((EXAMPLES.parent / "benchmarks" / "photos").glob("*.jpg")))
    assert num_files == f"{count} files\n"
    assert explained.startswith("native: ")
    assert equal == "equal: True\n"
    assert native == f"{count} of {count} native\n"


def test_the_pictures_show_what_was_cut_out_and_that_nothing_differs(shown: list[Any]) -> None:
    cuts, differences = (content for content in shown if isinstance(content, np.ndarray))
    # The frames, drawn in pure red around what was cut out.
    above = cuts[: len(cuts) // 2].astype(int)
    assert ((above[..., 0] > 250) & (above[..., 1:].max(axis=2) < 5)).sum() > 500
    # In a picture with differences the last row is black and the first has photographs.
    first, *_, last = np.array_split(differences.max(axis=2), 3)
    assert (last == 0).mean() > 0.5 > 0.1 > (first == 0).mean()
