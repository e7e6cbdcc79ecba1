"""Carries out the steps of a Dockerfile in bare systems, for machines without a container engine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import dockerfile
from bare_system import BareSystem

BASES = {"debian:trixie-slim": "trixie"}
"""Images that are made anew here, and the suite of Debian that they hold."""


@dataclass
class Image:
    """A system and what a Dockerfile has set for its programs."""

    system: BareSystem
    variables: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    folder: str = "/"
    command: str = "true"

    def run(self, command: str) -> int:
        return self.system.run(command, user=self.user, folder=self.folder, variables=self.variables)


class ImageBuilder:
    """Builds stages of a Dockerfile, each once.

    Args:
        text: The text of the Dockerfile.
        context: The folder whose files COPY takes.
        folder: The folder for the systems, one per stage.
        arguments: The build's values for ARG.
    """

    def __init__(self, text: str, context: Path, folder: Path, arguments: dict[str, str] | None = None) -> None:
        self._stages = dockerfile.parse(text)
        self._context = context
        self._folder = folder
        self._arguments = arguments or {}
        self._built: dict[str, Image] = {}

    def build(self, name: str) -> Image:
        """Builds the stage of that name and the stages that it needs.

        Raises ValueError if there is no such stage or base, CalledProcessError if a command fails.
        """
        if name not in self._built:
            stage = self._stages.get(name)
            if stage is None:
                raise ValueError(f"the Dockerfile's stages are {', '.join(self._stages)}, got {name!r}")
            image = self._base_of(stage)
            arguments: dict[str, str] = {}
            for step in stage.steps:
                print(f"== {name}: {step.name} {step.text}", flush=True)
                self._carry_out(step, image, arguments)
            self._built[name] = image
        return self._built[name]

    def _base_of(self, stage: dockerfile.Stage) -> Image:
        folder = self._folder / stage.name
        if stage.base in self._stages:
            base = self.build(stage.base)
            return Image(base.system.copied_to(folder), dict(base.variables), base.user, base.folder, base.command)
        if stage.base not in BASES:
            raise ValueError(f"{stage.name} is made from {stage.base}; known are {', '.join(BASES)} and stages")
        return Image(BareSystem.make(BASES[stage.base], folder))

    def _carry_out(self, step: dockerfile.Instruction, image: Image, arguments: dict[str, str]) -> None:
        words = step.words({**arguments, **image.variables})
        if step.name == "RUN":
            status = Image(image.system, {**arguments, **image.variables}, image.user, image.folder).run(step.text)
            if status != 0:
                raise subprocess.CalledProcessError(status, step.text)
        elif step.name == "ENV":
            image.variables |= dict(word.split("=", 1) for word in words)
        elif step.name == "ARG":
            name, has_value, value = words[0].partition("=")
            if name in self._arguments or has_value:
                arguments[name] = self._arguments.get(name, value)
        elif step.name == "WORKDIR":
            image.folder = words[0]
            image.system.path(image.folder).mkdir(parents=True, exist_ok=True)
        elif step.name == "USER":
            image.user = words[0]
        elif step.name == "CMD":
            image.command = shlex.join(words)
        else:
            self._copy(dockerfile.copy_of(words), image)

    def _copy(self, copy: dockerfile.Copy, image: Image) -> None:
        root = self._context if copy.stage is None else self.build(copy.stage).system.folder
        target = image.system.path(os.path.join(image.folder, copy.destination))  # noqa: PTH118 - inside of the system
        for name in copy.sources:
            source = root / name.lstrip("/")
            if source.is_dir():
                ignored = shutil.ignore_patterns("*.so", "__pycache__")
                shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
            else:
                target.mkdir(parents=True, exist_ok=True)  # with files, this repository's destinations are folders
                shutil.copy2(source, target)
