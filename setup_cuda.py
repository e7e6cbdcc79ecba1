"""The CUDA half of setup.py: which kernels are built, and the call of nvcc. It needs neither torch nor a GPU.

Environment: FASTLOAD_CUDA=0 builds no CUDA kernels, 1 insists on them, auto (default) builds them where torch is a CUDA
build and an nvcc of its major version is found: below CUDA_HOME, else on the PATH or in /usr/local/cuda. Then
TORCH_CUDA_ARCH_LIST names the GPUs, as it does for torch's own extensions.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCES = ("csrc/cuda/convert_kernels.cu", "csrc/cuda/decode_kernels.cu")
COMPUTE_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")


@dataclass(frozen=True)
class Toolkit:
    nvcc: str
    major: int

    @staticmethod
    def find() -> Toolkit | None:
        home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
        nvcc = f"{home}/bin/nvcc" if home else shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        try:
            release = re.search(r"release (\d+)", run(nvcc, "--version").stdout)
        except (OSError, subprocess.CalledProcessError):
            return None
        return Toolkit(nvcc, int(release[1])) if release else None

    def library_folders(self) -> list[str]:
        """Returns nvcc's own folders of the runtime: layouts differ, and nvcc may be a script around another."""
        return re.findall(r'"-L([^"]+)"', run(self.nvcc, "--dryrun", "-c", SOURCES[0]).stderr)

    def compile(self, include: str, folder: str) -> list[str]:
        """Compiles the kernels and returns their object files."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        return [self._compile_one(source, include, str(Path(folder, f"{Path(source).stem}.o"))) for source in SOURCES]

    def _compile_one(self, source: str, include: str, compiled: str) -> str:
        options = ["-std=c++17", "-O3", f"-I{include}", "-Xcompiler=-fPIC,-fvisibility=hidden", *self.generated_code()]
        jobs = f"--threads={os.environ.get('MAX_JOBS', 0)}"
        command = [self.nvcc, *options, jobs, "-c", source, "-o", compiled]
        sys.stdout.write(shlex.join(command) + "\n")
        run(*command)
        return compiled

    def generated_code(self) -> list[str]:
        """Returns nvcc's options for the GPUs; without a list, also for PTX of the newest one, for future GPUs."""
        names = re.split(r"[ ;]+", os.environ.get("TORCH_CUDA_ARCH_LIST", "").strip(" ;"))
        if names == [""]:
            known = run(self.nvcc, "--list-gpu-code").stdout.split()
            names = [name for name in COMPUTE_CAPABILITIES if "sm_" + name.replace(".", "") in known]
            names[-1] += "+PTX"
        options = []
        for name in names:
            parts = re.fullmatch(r"(\d+)\.(\d[af]?)(\+PTX)?", name)
            if parts is None:
                raise ValueError(f"TORCH_CUDA_ARCH_LIST holds {name!r}; 8.0 or 9.0+PTX would be understood")
            number = parts[1] + parts[2]
            options += [f"-gencode=arch=compute_{number},code={kind}_{number}" for kind in ("sm", "compute")]
            if parts[3] is None:
                options.pop()
        return options


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)


def choose_toolkit(torch_cuda: str | None) -> Toolkit | None:
    """Returns the toolkit for kernels beside a torch built with this version of CUDA, if any; None to build none."""
    choice = os.environ.get("FASTLOAD_CUDA", "auto")
    if choice not in ("auto", "0", "1"):
        sys.exit(f"fastload: FASTLOAD_CUDA must be auto, 0 or 1, got {choice!r}.")
    if choice == "0" or (choice == "auto" and torch_cuda is None):
        return None
    toolkit = Toolkit.find()
    if toolkit is None and is_required():
        sys.exit("fastload: FASTLOAD_CUDA=1 needs the CUDA toolkit, but no nvcc runs. Name its folder in CUDA_HOME.")
    if toolkit is None or is_required() or str(torch_cuda).split(".")[0] == str(toolkit.major):
        return toolkit
    return None


def is_required() -> bool:
    return os.environ.get("FASTLOAD_CUDA") == "1"


def report_failure(error: Exception) -> str:
    """Returns a sentence on why the kernels were not built. Ends the build if they are required."""
    output = (getattr(error, "stderr", None) or str(error)).strip()
    reason = next((line for line in output.splitlines() if "error" in line), output.partition("\n")[0]).strip()
    sentence = f"fastload: the CUDA kernels cannot be built ({reason})"
    if is_required():
        sys.exit(f"{sentence}. FASTLOAD_CUDA=0 builds without them.")
    return f"{sentence}; torch's operations do their work."
