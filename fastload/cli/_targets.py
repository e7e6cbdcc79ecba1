"""Objects named on the command line: ``script.py:name`` or ``package.module:name``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from fastload._display._progress import Progress
from fastload._process._config import TorchDataLoader
from fastload.cli._common import UsageError, one_line, usage_errors


def loader_of(target: str) -> TorchDataLoader[Any]:
    """Returns the loader that `target` names: the object itself, or its result when it is called without arguments.

    A script is imported, not run: its ``if __name__ == "__main__"`` block is not executed. It is imported once, under
    its own name and with its folder on the path, so that worker processes can import it too. Raises UsageError.
    """
    with Progress(f"importing {_parts_of(target)[0]}"):
        found = _object_of(target)
        if not isinstance(found, TorchDataLoader) and callable(found):
            with _users_code(f"{target}()"):
                found = found()
    if not isinstance(found, TorchDataLoader):
        raise UsageError(f"{target} is a {type(found).__name__}, not a DataLoader or a function that returns one")
    return found


def function_of(target: str) -> Callable[..., Any]:
    """Returns the function that `target` names. Raises UsageError if there is none."""
    found = _object_of(target)
    if not callable(found):
        raise UsageError(f"{target} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _object_of(target: str) -> Any:
    source, name = _parts_of(target)
    with _users_code(f"importing {source}"):
        module = _import(source)
    if not name:
        raise UsageError(f"{source} is a script: name the object in it, as {source}:name{_loaders_in(module)}")
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{source} has no {name!r}{_loaders_in(module)}")
        found = getattr(found, part)
    return found


def _parts_of(target: str) -> tuple[str, str]:
    """Returns the script or module, and the name in it; "" for a script without one."""
    source, _, name = target.rpartition(":")
    if source and name:
        return source, name
    script = target.removesuffix(":")
    if script.endswith(".py"):
        return script, ""
    if Path(target).is_dir():
        raise UsageError(f"{target} is a folder: name a loader over it, as script.py:name")
    raise UsageError(f"{target!r} is neither a folder nor of the form script.py:name or package.module:name")


def _loaders_in(module: ModuleType) -> str:
    """Returns a hint about the loaders in a module, or about naming one that a function makes."""
    names = [name for name, value in vars(module).items() if isinstance(value, TorchDataLoader)]
    if names:
        return f"; its loaders: {', '.join(names)}"
    return "; it has no loader: if a function makes one, name a function without arguments that returns it"


@contextmanager
def _users_code(what: str) -> Iterator[None]:
    """Turns exceptions of the user's code into a UsageError."""
    try:
        with usage_errors(Exception, prefix=f"{what}: "):
            yield
    except SystemExit as error:
        raise UsageError(
            f"{what}: {one_line(error)}. Arguments of the script come last, after --: fastload ... -- --epochs 1"
        ) from error


def _import(source: str) -> ModuleType:
    if not source.endswith(".py"):
        # Like `python -m`: modules in the current folder are found.
        _prepend_path(Path.cwd())
        return importlib.import_module(source)
    path = Path(source).resolve()
    if not path.is_file():
        raise UsageError(f"no file {source} in {Path.cwd()}")
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    if loaded is not None:
        raise UsageError(f"{source} has the name of a module that is loaded already ({path.stem}); rename it")
    _prepend_path(path.parent)
    sys.argv[0] = source
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def _prepend_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
