"""examples/move_a_project.py and .yml: the command of the job, and how it ends."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from children import RunChild
from example_runner import EXAMPLES

SCRIPT = EXAMPLES / "move_a_project.py"
WORKFLOW = EXAMPLES / "move_a_project.yml"


def words_of_the_job() -> list[str]:
    """Returns the command that compares the loaders."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which comes with transformers")
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["verify"]
    assert "IMAGES" in job["env"]
    return shlex.split(next(step["run"] for step in job["steps"] if step.get("name") == "compare the loaders"))


@pytest.fixture
def run_step(run_child: RunChild, tmp_path: Path) -> Any:
    """Runs the job's command on a project of this script and these images."""
    (tmp_path / "examples").mkdir()

    def run(script: str, images: Path) -> Any:
        (tmp_path / "examples" / SCRIPT.name).write_text(script)
        words = words_of_the_job()
        assert words[:4] == ["python", "-m", "fastload", "verify"]
        code = f"import example_runner\nimport runpy, sys\nsys.argv = {words[2:]}\n"
        code += "runpy.run_module('fastload', run_name='__main__')"
        return run_child(code, check=False, timeout=150, warm=True, env={"IMAGES": str(images)})

    return run


def test_the_jobs_command_ends_with_0_and_leaves_its_report(run_step: Any, image_folder: Path, tmp_path: Path) -> None:
    result = run_step(SCRIPT.read_text(), image_folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("fastload verify: 0 differences in 24 samples\n")
    assert re.search(r"\n  new +<fastload.DataLoader: .*>, RandomSampler, native\n", result.stdout)
    assert json.loads((tmp_path / "verify.json").read_text())["is_equal"] is True


def test_a_new_loader_with_other_draws_ends_it_with_1(run_step: Any, image_folder: Path, tmp_path: Path) -> None:
    old, new, rest = SCRIPT.read_text().partition("def new_loader()")
    result = run_step(old + new + rest.replace("num_workers=2", "num_workers=1"), image_folder)
    assert result.returncode == 1
    assert "random numbers" in result.stdout
    assert json.loads((tmp_path / "verify.json").read_text())["is_equal"] is False


def test_a_folder_that_is_not_there_ends_it_with_2(run_step: Any, tmp_path: Path) -> None:
    result = run_step(SCRIPT.read_text(), tmp_path / "missing")
    assert result.returncode == 2
    assert "missing" in result.stderr


@pytest.mark.smoke
def test_the_script_itself_compares_as_many_batches_as_it_is_told(run_example: Any, image_folder: Path) -> None:
    output = run_example("move_a_project.py", image_folder, "--batches=1").stdout
    assert output.startswith("fastload verify: 0 differences in 16 samples\n")
