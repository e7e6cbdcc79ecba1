"""Workflows, container, conda, devcontainer: checks of these files that do not need the programs they are for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dockerfile
import pytest
from architecture.documents import ROOT, make_targets

yaml = pytest.importorskip("yaml", reason="PyYAML comes with packages of tests/requirements.txt")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, *(ROOT / name for name in ("Dockerfile", "environment.yml", ".devcontainer/devcontainer.json"))]
IN_CONDA = {"torch": "pytorch"}
HOST = re.compile(r"https?://|\b[\w-]+(?:\.[\w-]+)*\.(?:com|io|org|net|dev)\b|--(?:extra-)?index-url|--trusted-host")

pytestmark = pytest.mark.smoke


def tool(name: str) -> str:
    """Returns the path of a program of tests/requirements.txt."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is in tests/requirements.txt")
    return found


def assert_silent(*command: object) -> None:
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def stages() -> dict[str, dockerfile.Stage]:
    return dockerfile.parse((ROOT / "Dockerfile").read_text())


def jobs() -> list[dict[str, Any]]:
    return [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]


def steps() -> list[dict[str, str]]:
    return [step for job in jobs() for step in job["steps"]]


def test_workflows_have_the_form_that_their_schema_asks_for() -> None:
    assert_silent(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *WORKFLOWS)


def test_workflows_run_targets_of_make_and_actions_of_one_commit() -> None:
    commands = "\n".join(step.get("run", "") for step in steps())
    assert set(re.findall(r"\bmake ([\w-]+)", commands)) <= make_targets()
    actions = [step["uses"] for step in steps() if "uses" in step]
    assert [action for action in actions if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action)] == []


def test_every_processor_of_the_wheels_is_tested() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text())["jobs"]
    build, test = (
        {(case["runner"], case["processor"]) for case in jobs[name]["strategy"]["matrix"]["include"]}
        for name in ("build", "test")
    )
    assert build == test == {("ubuntu-24.04", "x86_64"), ("ubuntu-24.04-arm", "aarch64")}


def test_dockerfile_is_silent_under_hadolint() -> None:
    """DL3008 and DL3013 ask for pinned versions: Debian's are meant to be the newest, torch is the user's choice."""
    assert_silent(tool("hadolint"), "--ignore", "DL3008", "--ignore", "DL3013", ROOT / "Dockerfile")


def test_dockerfile_copies_what_is_there_from_stages_that_come_earlier() -> None:
    known = {"debian:trixie-slim"}
    for stage in stages().values():
        assert stage.needs() <= known
        known.add(stage.name)
        for copy in stage.copies():
            assert copy.stage is not None or all((ROOT / source).exists() for source in copy.sources)


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_images_for_users_have_no_compiler_run_the_command_and_are_not_root(name: str) -> None:
    stage = stages()[name]
    settings = {step.name: step.text for step in stage.steps}
    assert settings["USER"] == "1000"
    assert json.loads(settings["CMD"]) == ["fastload", "info"]
    assert stage.base == "debian:trixie-slim"
    assert not any("g++" in step.text for step in stage.steps)


def test_default_image_is_for_the_processor() -> None:
    assert list(stages())[-1] == "cpu"


def test_devcontainer_builds_a_stage_and_then_the_extension() -> None:
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert settings["build"]["target"] in stages()
    assert (ROOT / ".devcontainer" / settings["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    program, target = settings["postCreateCommand"].split()
    assert program == "make"
    assert target in make_targets()


def test_conda_environment_has_what_the_package_and_its_build_need() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert set(environment) == {"name", "channels", "dependencies"}
    in_conda = {line.replace(" ", "") for line in environment["dependencies"]}
    for key in ("requires", "dependencies"):
        for requirement in json.loads(re.search(rf"^{key} = (\[.*\])$", project, re.MULTILINE)[1]):
            name = re.match(r"\w+", requirement)[0]
            assert IN_CONDA.get(name, name) + requirement[len(name) :] in in_conda
    python = re.search(r'^requires-python = "(.+)"$', project, re.MULTILINE)[1]
    assert {f"python{python}", "cxx-compiler", "ninja", "pip"} <= in_conda


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_no_host_is_named(file: Path) -> None:
    assert HOST.findall(file.read_text()) == []
