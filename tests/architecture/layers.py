"""The layer rules of the project as tables, and the check that reads every include and import against them.

`python tests/architecture/layers.py` prints the violations of this repository, with `--table` the table of the Python
packages in docs/design.md.
"""

from __future__ import annotations

import ast
import fnmatch
import graphlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The modules of one folder have levels: a module (a Python file, a C++ source with its header, a folder of these) uses
# another one beside it, or beside a folder it is in, only if that one has a lower level.
CPP_LEVELS = {
    "base": 0,
    "kernels": 1,
    "python": 1,
    "io": 1,
    "processes": 1,
    "device": 1,
    "codec": 2,
    "image": 2,
    "cuda": 2,
    "engine": 3,
    "bindings": 4,
}
PYTHON_LEVELS = {
    "_errors": 0,
    "_native": 0,
    "_process": 0,
    "_display": 1,
    "_delivery": 1,
    "_pillow": 1,
    "_resume": 1,
    "_decode_cache": 2,
    "_workers": 2,
    "samplers": 2,
    "sources": 2,
    "transforms": 2,
    "_cached": 3,
    "_quarantine": 3,
    "_planning": 3,
    "_images": 4,
    "_iteration": 5,
    "_loader": 6,
    "_patch": 7,
    "_tools": 8,
    "cli": 9,
    "__init__": 10,
    "__main__": 10,
}
# In a folder that has no row modules may use each other, but not in a circle.
LEVELS = {
    "csrc": CPP_LEVELS,
    "csrc/codec": {"decoder": 0, "jpeg": 1},
    "csrc/cuda": {
        "bits": 0,
        "kernel_status": 0,
        "runtime_table": 0,
        "convert_loop": 1,
        "decode": 1,
        "convert_kernels": 2,
        "cuda_backend": 2,
        "decode_kernels": 2,
    },
    "csrc/image": {"pixels": 0, "random": 0, "resize": 0, "blur": 1, "plan": 1, "steps": 2},
    "csrc/io": {
        "file_facts": 0,
        "sample_index": 0,
        "working_directory": 0,
        "directory_scan": 1,
        "records": 1,
        "file_reader": 1,
        "folder_index": 2,
    },
    "csrc/engine/cache": {
        "index_records": 0,
        "record_map": 0,
        "file_version": 0,
        "index_table": 1,
        "record_kinds": 1,
        "opened_records": 2,
        "stored_record": 3,
        "record_appender": 3,
        "built_records": 4,
        "store_report": 4,
        "file_record_cache": 5,
        "record_build": 5,
        "record_store": 5,
        "decode_cache": 6,
    },
    "csrc/processes": {"arena": 0, "slots": 1},
    "csrc/python": {
        "object_list": 0,
        "ref": 0,
        "without_gil": 0,
        "sharable_types": 1,
        "thread_generators": 1,
        "large_containers": 2,
        "method_exchange": 2,
        "immortal_objects": 3,
        "worker_forks": 4,
    },
    "csrc/engine": {
        "fork_guard": 0,
        "cache": 1,
        "sample": 2,
        "batch": 3,
        "deferred_releases": 3,
        "queues": 4,
        "engine_core": 5,
        "draw_lane": 6,
        "iteration": 7,
        "engine": 8,
    },
    "fastload": PYTHON_LEVELS,
    "fastload/_decode_cache": {
        "_folder": 0,
        "_store": 1,
        "_build": 2,
        "_report": 2,
        "_cache": 3,
        "_clearing": 3,
        "_file_records": 4,
        "_loader_cache": 5,
        "_worker_cache": 6,
    },
    "fastload/cli": {
        "_common": 0,
        "_targets": 2,
        "_cache": 3,
        "_folder_commands": 3,
        "_info": 3,
        "_loader_commands": 3,
        "_bench": 4,
        "__init__": 5,
    },
    "fastload/_iteration": {
        "_fingerprint": 0,
        "_saved_worker": 0,
        "_settings": 0,
        "_saved_state": 1,
        "_progress": 2,
        "_setup": 3,
        "_maker": 4,
        "_states": 5,
        "native": 6,
        "processes": 7,
        "python": 6,
        "_iterator": 8,
        "__init__": 9,
    },
    "fastload/_iteration/processes": {
        "_packing": 0,
        "_arenas": 1,
        "_connections": 0,
        "_snapshots": 0,
        "_start": 0,
        "_worker_processes": 1,
        "_messages": 2,
        "_child": 3,
        "_process_group": 4,
        "_maker": 5,
        "__init__": 7,
    },
    "fastload/_iteration/python": {
        "_counters": 0,
        "_native_samples": 0,
        "_worker_draws": 1,
        "_snapshot_log": 2,
        "_task": 2,
        "_fetcher": 3,
        "_dataset": 4,
        "_resume_point": 4,
        "_worker": 5,
        "_worker_group": 6,
        "_thread_group": 7,
        "_loader_workers": 8,
        "_made_batch": 8,
        "_caller_maker": 9,
        "_maker": 9,
        "__init__": 10,
    },
    "fastload/_tools": {"_benchmark": 0, "verify": 0, "doctor": 1, "__init__": 2},
    "fastload/_workers": {
        "_native_draws": 0,
        "_per_thread": 0,
        "_seeding": 0,
        "_walk": 0,
        "_gpu_objects": 1,
        "_worker_error": 0,
        "_inherited": 0,
        "_collate_memory": 0,
        "_torch_draws": 0,
        "_user_functions": 1,
        "_exchanges": 1,
        "_places": 2,
        "_generators": 2,
        "_random_stream": 3,
        "_torch_globals": 3,
        "_init_fn": 4,
        "_user_code": 0,
        "_data_pipes": 1,
        "__init__": 5,
    },
    "fastload/transforms": {
        "_multi_view": 0,
        "_pillow_rules": 0,
        "_stage": 0,
        "_recognize": 1,
        "_user_code": 2,
        "_parameters": 2,
        "_color": 3,
        "_geometry": 3,
        "_tensor_part": 3,
        "_gaussian_blur": 3,
        "_auto_augment": 4,
        "_catalog": 5,
        "_nodes": 6,
        "_native_steps": 7,
        "_lowering": 8,
        "_first_steps": 9,
        "__init__": 9,
    },
}
# The engine knows devices by device/backend.h, though its level would allow more.
FORBIDDEN_PAIRS = {("engine", "cuda")}

# Header pattern -> (patterns of the files that may include it, what it is). Paths are relative to csrc.
CPP_HOMES = {
    r"pybind11/.*": (["bindings/*"], "pybind11"),
    r"(Python|structmember)\.h": (["bindings/*", "python/*"], "Python's C interface"),
    r"(cuda|cuda_runtime|cuda_runtime_api|driver_types)\.h|dlfcn\.h": (["cuda/*"], "the CUDA runtime"),
    r"\w*intrin\.h|arm_\w+\.h|cpuid\.h": (["kernels/*_avx2.*", "kernels/*_avx512.*", "kernels/*_sse2.*"], "intrinsics"),
    r"thread|mutex|shared_mutex|condition_variable|atomic|future|pthread\.h|semaphore\.h": (
        ["engine/*", "processes/*"],
        "threads, locks, atomics",
    ),
    r"(torch|ATen|c10|caffe2)/.*": ([], "torch"),
}
# Word in C++ code -> (patterns of the files that may use it, what it is).
CPP_WORD_HOMES = {r"\b(secure_)?getenv\b": (["kernels/dispatch.cpp"], "environment variables")}
EXTENSION_MODULES = ("fastload._core", "fastload._cuda_kernels")
# Module imported -> (files that may import it); relative to the folder that holds fastload.
PYTHON_HOMES = {
    "torchvision": [
        "fastload/transforms/_recognize.py",
        "fastload/sources/_lowering.py",
        "fastload/cli/_folder_commands.py",
    ],
    "cv2": ["fastload/_images/_opencv.py"],
    "PIL": ["fastload/_pillow/_pillow.py", "fastload/_pillow/_originals.py", "fastload/_images/*"],
    **{module: ["fastload/_native.py"] for module in EXTENSION_MODULES},
}
ENVIRONMENT_HOMES = ["fastload/_process/_config.py", "setup.py"]

# (file, what it uses) -> reason. Every row is a debt; an unused row is reported too.
EXCEPTIONS: dict[tuple[str, str], str] = {}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def matches(path: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def level_violation(own_path: Path, used_path: Path) -> str | None:
    """Returns the fault of a use of one module in another, or None; paths are below the root, without suffix."""
    folder = Path(os.path.commonpath([own_path, used_path]))
    levels = LEVELS.get(folder.as_posix())
    if levels is None or own_path == used_path:
        return None
    own, used = (path.relative_to(folder).parts[0] for path in (own_path, used_path))
    for name in (own, used):
        if name not in levels:
            return f"{name} has no level; give it one in tests/architecture/layers.py"
    if levels[used] > levels[own]:
        return f"{own} (level {levels[own]}) uses {used}, which is above it (level {levels[used]})"
    if levels[used] == levels[own]:
        return f"{own} uses its sibling {used} (both level {levels[own]})"
    return f"{own} must not name {used}" if (own, used) in FORBIDDEN_PAIRS else None


def included_paths(path: Path, csrc: Path) -> Iterator[Path]:
    """Yields the project's headers that a C++ file includes; below the root, without suffix."""
    for bracket, header in INCLUDE.findall(path.read_text()):
        if bracket == '"':
            yield Path("csrc", header).with_suffix("")


def imported_paths(path: Path, root: Path) -> Iterator[Path]:
    """Yields the modules of the package that a Python file imports; below the root, without suffix."""
    for module in imported_modules(ast.parse(path.read_text()), list(path.relative_to(root).parts[:-1])):
        if is_or_lies_in(module, "fastload") and not any(is_or_lies_in(module, name) for name in EXTENSION_MODULES):
            yield module_path(module, root)


def circles(root: Path) -> Iterator[tuple[str, str]]:
    """Yields (folder, fault) for each folder without levels whose modules use each other in a circle."""
    uses: dict[Path, dict[str, set[str]]] = {}
    files = [
        *((path, included_paths(path, root / "csrc")) for path in cpp_files(root)),
        *((path, imported_paths(path, root)) for path in python_files(root)),
    ]
    for path, used_paths in files:
        own = path.relative_to(root).with_suffix("")
        for used in used_paths:
            folder = Path(os.path.commonpath([own, used]))
            if used != own and folder.as_posix() not in LEVELS:
                modules = (path.relative_to(folder).parts[0] for path in (own, used))
                uses.setdefault(folder, {}).setdefault(next(modules), set()).add(next(modules))
    for folder, graph in uses.items():
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            yield folder.as_posix(), f"uses itself in a circle: {' <- '.join(error.args[1])}"


def check_cpp_file(path: Path, csrc: Path) -> Iterator[tuple[str, str]]:
    """Yields (what is used, fault) for each violation in one C++ file."""
    name = path.relative_to(csrc).as_posix()
    text = path.read_text()
    for bracket, header in INCLUDE.findall(text):
        for pattern, (homes, thing) in CPP_HOMES.items():
            if re.fullmatch(pattern, header) and not matches(name, homes):
                yield header, f"includes {header}; the home of {thing} is {' or '.join(homes) or 'nowhere in csrc'}"
        if bracket == '"':
            if not (csrc / header).exists():
                yield header, f'includes "{header}", which is not a path relative to csrc'
            elif problem := level_violation(Path("csrc", name).with_suffix(""), Path("csrc", header).with_suffix("")):
                yield header, problem
    code = COMMENT_OR_STRING.sub("", text)
    for pattern, (homes, thing) in CPP_WORD_HOMES.items():
        if (found := re.search(pattern, code)) and not matches(name, homes):
            yield found.group(), f"uses {found.group()}; the home of {thing} is {' or '.join(homes)}"


def imported_modules(tree: ast.Module, package: list[str]) -> Iterator[str]:
    """Yields the dotted names that a module of `package` imports, by statement, by importlib or from sys.modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            # `from fastload import _core` and `from fastload._errors import SampleError` both name a module this way.
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(first := next(iter(node.args), None), ast.Constant):
            callee = ast.unparse(node.func)
            if callee.endswith(("import_module", "__import__", "find_spec", "sys.modules.get")):
                yield str(first.value)
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            yield str(getattr(node.slice, "value", ""))


def is_or_lies_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def check_python_file(path: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Yields (what is used, fault) for each violation in one Python file of the package."""
    name = path.relative_to(root).as_posix()
    tree = ast.parse(path.read_text())
    own = path.relative_to(root).with_suffix("")
    for module in imported_modules(tree, list(own.parts[:-1])):
        for thing, homes in PYTHON_HOMES.items():
            if is_or_lies_in(module, thing) and not matches(name, homes):
                yield thing, f"imports {module}; the home of {thing} is {' or '.join(homes)}"
        if not is_or_lies_in(module, "fastload") or any(is_or_lies_in(module, name) for name in EXTENSION_MODULES):
            continue
        if problem := level_violation(own, module_path(module, root)):
            yield module, problem
    uses_environment = any(
        isinstance(node, (ast.Attribute, ast.Name)) and re.fullmatch(r"(os\.)?(environb?|getenvb?)", ast.unparse(node))
        for node in ast.walk(tree)
    )
    if uses_environment and name not in ENVIRONMENT_HOMES:
        yield "environ", f"reads environment variables; their home is {' or '.join(ENVIRONMENT_HOMES)}"


def module_path(module: str, root: Path) -> Path:
    """Returns the path of an imported name's code, below the root and without suffix."""
    path = Path()
    for part in module.split("."):
        if (root / path / f"{part}.py").exists():
            return path / part
        if not (root / path / part).is_dir():
            break
        path /= part
    # `import fastload` and `from fastload import DataLoader` go through __init__.
    return path / "__init__"


def cpp_files(root: Path) -> list[Path]:
    return sorted(path for kind in ("*.h", "*.cpp", "*.cu") for path in (root / "csrc").rglob(kind))


def python_files(root: Path) -> list[Path]:
    return sorted((root / "fastload").rglob("*.py"))


def violations(root: Path, exceptions: dict[tuple[str, str], str] | None = None) -> list[str]:
    """Returns 'path: fault' for every violation under root/csrc and root/fastload and every needless exception."""
    allowed = EXCEPTIONS if exceptions is None else exceptions
    found: list[tuple[str, str, str]] = []
    found += [(folder, "circle", problem) for folder, problem in circles(root)]
    for path in cpp_files(root):
        name = path.relative_to(root).as_posix()
        found += [(name, used, problem) for used, problem in check_cpp_file(path, root / "csrc")]
    for path in python_files(root):
        name = path.relative_to(root).as_posix()
        found += [(name, used, problem) for used, problem in check_python_file(path, root)]
    needed = {(name, used) for name, used, _ in found}
    unused = [f"{name}: the exception for {used} is not needed" for name, used in allowed if (name, used) not in needed]
    return [f"{name}: {problem}" for name, used, problem in found if (name, used) not in allowed] + unused


def package_table(root: Path) -> str:
    """Returns the table of the Python packages as Markdown: name, level and the first line of the docstring."""
    rows = ["| package | level | job |", "|---|---|---|"]
    for name, level in sorted(PYTHON_LEVELS.items(), key=lambda row: (row[1], row[0])):
        if not name.endswith("__"):
            folder = root / "fastload"
            path = folder / name / "__init__.py" if (folder / name).is_dir() else folder / f"{name}.py"
            job = str(ast.get_docstring(ast.parse(path.read_text()))).splitlines()[0]
            rows.append(f"| `{name}` | {level} | {job.rstrip('.').replace('``', '`')} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--table" in sys.argv[1:]:
        print(package_table(ROOT), end="")
        sys.exit()
    print("\n".join(violations(ROOT)))
    sys.exit(bool(violations(ROOT)))
