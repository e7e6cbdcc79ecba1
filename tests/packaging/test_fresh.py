"""The parts of `make fresh`: the documents' steps, pip's settings of this machine, and the steps of Dockerfiles."""

from __future__ import annotations

from pathlib import Path

import checkout
import dockerfile
import fresh
import image_steps
import pytest
from bare_system import BareSystem, PipSettings

pytestmark = pytest.mark.smoke


def test_steps_are_those_of_the_documents() -> None:
    steps = fresh.documented_steps()
    assert {"g++", "make", "python3-dev", "python3-venv"} == set(steps.packages)
    assert steps.environment == ["python3 -m venv ~/fastload"]
    assert steps.activate == ". ~/fastload/bin/activate"
    assert steps.commands == ["pip install .", "make bench", "make test"]


@pytest.mark.skipif(not (fresh.ROOT / ".git").exists(), reason="not in a repository")
def test_checkout_has_the_sources_and_nothing_built() -> None:
    files = checkout.files()
    assert {Path("setup.py"), Path("csrc/kernels/idct.h"), Path(".ci/run")} <= set(files)
    assert not [file for file in files if file.suffix == ".so" or file.parts[0] in ("build", ".venv")]


def test_settings_of_pip_lead_below_one_folder_and_variables_come_first(tmp_path: Path) -> None:
    (tmp_path / "disk" / "simple").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    settings = PipSettings(
        ":env:.timeout='30'\n"
        f"global.extra-index-url='file://{tmp_path}/disk/simple'\n"
        f"global.find-links='{tmp_path}/wheels no/such'\n"
        "global.timeout='10'\n"
    )
    assert settings.variables == {
        "PIP_EXTRA_INDEX_URL": f"file:///machine{tmp_path}/disk/simple",
        "PIP_FIND_LINKS": f"/machine{tmp_path}/wheels no/such",
        "PIP_TIMEOUT": "30",
    }
    assert settings.paths == [f"{tmp_path}/disk", f"{tmp_path}/wheels"]  # an index links to its neighbours


TWO_STAGES = """
# A comment \\
FROM debian:trixie-slim AS first
ARG KIND=plain
ARG UNSET
RUN make ${KIND} \\
    && make again
FROM first AS second
ENV PATH=/opt/bin:$PATH
WORKDIR /fastload
COPY --from=first made result/
COPY README.md LICENSE ./
USER 1000
CMD ["run", "it"]
"""


class FakeSystem(BareSystem):
    """Notes what would run."""

    log: list[tuple[object, ...]]

    @classmethod
    def make(cls, suite: str, folder: Path) -> FakeSystem:
        system = cls(folder)
        system.log = [("made", suite)]
        folder.mkdir(parents=True)
        return system

    def copied_to(self, folder: Path) -> FakeSystem:
        other = FakeSystem(folder)
        other.log = [*self.log, "copied"]
        folder.mkdir()
        return other

    def run(self, command: str, *, user: str = "root", folder: str = "/", variables: object = None) -> int:
        self.log.append((command, user, folder, variables))
        return 3 if command == "fail" else 0


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> image_steps.ImageBuilder:
    monkeypatch.setattr(image_steps, "BareSystem", FakeSystem)
    return image_steps.ImageBuilder(TWO_STAGES, fresh.ROOT, tmp_path / "images", {"KIND": "quick"})


def test_steps_of_a_stage_run_with_its_variables_in_its_folder(builder: image_steps.ImageBuilder) -> None:
    system = builder.build("first").system
    (system.folder / "made").mkdir()
    (system.folder / "made" / "wheel").touch()
    image = builder.build("second")
    image.run(image.command)
    assert image.system.log == [
        ("made", "trixie"),
        ("make ${KIND} && make again", "root", "/", {"KIND": "quick"}),
        "copied",
        ("run it", "1000", "/fastload", {"PATH": "/opt/bin:"}),
    ]
    copied = {path.relative_to(image.system.folder) for path in image.system.folder.rglob("*") if path.is_file()}
    assert copied == {Path("fastload", name) for name in ("result/wheel", "README.md", "LICENSE")}


def test_command_that_fails_ends_the_build(builder: image_steps.ImageBuilder, tmp_path: Path) -> None:
    failing = image_steps.ImageBuilder("FROM debian:trixie-slim AS bad\nRUN fail\n", fresh.ROOT, tmp_path / "more")
    with pytest.raises(image_steps.subprocess.CalledProcessError, match="'fail' returned non-zero exit status 3"):
        failing.build("bad")


def test_stage_that_is_not_there_is_named(builder: image_steps.ImageBuilder) -> None:
    with pytest.raises(ValueError, match="the Dockerfile's stages are first, second, got 'third'"):
        builder.build("third")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HEALTHCHECK x", "a Dockerfile's HEALTHCHECK is not understood here"),
        ("RUN x", "a Dockerfile's RUN is not understood here; known are .* FROM first"),
    ],
)
def test_what_is_not_understood_in_a_dockerfile_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dockerfile.parse(text)


def test_option_of_a_copy_that_is_not_understood_is_named() -> None:
    with pytest.raises(ValueError, match="COPY understands --from alone, got --chown=1000"):
        dockerfile.copy_of(["--chown=1000", "a", "b"])


def test_record_says_what_took_how_long_and_what_failed() -> None:
    assert fresh.format_record([("trixie", "make bench", 90.0, 0), ("trixie", "make test", 600.0, 2)]) == (
        "system     minutes  command\n"
        "trixie         1.5  make bench\n"
        "trixie        10.0  make test   failed, exit status 2"
    )
