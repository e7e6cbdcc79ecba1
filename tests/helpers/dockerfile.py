"""Dockerfiles, as far as this repository's uses them: stages of instructions, with their variables filled in."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

KNOWN = ("ARG", "CMD", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR")

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Instruction:
    """One of KNOWN. `text` is what follows the name, in one line."""

    name: str
    text: str

    def words(self, variables: Mapping[str, str]) -> list[str]:
        """Returns the words of a list in JSON or of a shell's line, with variables replaced, unset ones by nothing."""
        text = _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), self.text)
        return json.loads(text) if text.startswith("[") else shlex.split(text)


@dataclass(frozen=True)
class Copy:
    """A COPY instruction: `sources`, files or folders of the stage `stage` or, with None, of the build context."""

    stage: str | None
    sources: list[str]
    destination: str


@dataclass(frozen=True)
class Stage:
    """From one FROM to the next. `base` is a stage's name or an image's."""

    name: str
    base: str
    steps: list[Instruction]

    def copies(self) -> list[Copy]:
        return [copy_of(step.words({})) for step in self.steps if step.name == "COPY"]

    def needs(self) -> set[str]:
        """Returns the names of the stages it takes files from: its base and others."""
        return {self.base, *(copy.stage for copy in self.copies() if copy.stage)}


def copy_of(words: list[str]) -> Copy:
    """Raises ValueError: an option that is not --from."""
    options = [word for word in words if word.startswith("--")]
    *sources, destination = [word for word in words if not word.startswith("--")]
    if any(not option.startswith("--from=") for option in options):
        raise ValueError(f"COPY understands --from alone, got {' '.join(options)}")
    return Copy(options[0].partition("=")[2] if options else None, sources, destination)


def parse(text: str) -> dict[str, Stage]:
    """Returns the stages by name, in order. Raises ValueError: an unknown instruction, or one before any FROM."""
    stages: dict[str, Stage] = {}
    current: Stage | None = None
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    for line in filter(str.strip, lines):
        name, _, rest = line.strip().partition(" ")
        step = Instruction(name, " ".join(rest.split()))
        if name not in KNOWN or (current is None and name != "FROM"):
            raise ValueError(f"a Dockerfile's {name} is not understood here; known are {', '.join(KNOWN)}, FROM first")
        if name == "FROM":
            base, _, stage = step.words({})
            current = stages[stage] = Stage(stage, base, [])
        else:
            current.steps.append(step)
    return stages
