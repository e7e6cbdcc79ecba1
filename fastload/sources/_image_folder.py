"""A folder with one sub-folder per class: torchvision's ImageFolder, with the index held in arrays."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from fastload.sources._path_dataset import PathDataset
from fastload.sources._path_table import PathTable, PathTableBuilder

# os.path works on the strings as given; pathlib would normalise them and so change the samples.
# ruff: noqa: PTH111, PTH116, PTH118, PTH120

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class ImageFolder(PathDataset):
    """Images laid out as ``root/class_name/**/image.ext``.

    Classes, their numbers, the samples and their order are those of ``torchvision.datasets.ImageFolder``, with one
    exception: a linked directory that contains the link is not entered again (torchvision goes round until the
    system refuses, about 40 times); a warning names it.

    Args:
        root: The folder; ``~`` is expanded.
        transform: Called with the PIL RGB image of a sample.
        target_transform: Called with the label of a sample. With one the data set is loaded in Python.
        is_valid_file: Called with each path; decides instead of the file extension.
        allow_empty: Accept classes without a valid file.

    Attributes:
        root: As given, expanded.
        classes: Class names, sorted.
        class_to_idx: Class name to label.
        samples, imgs: (path, label) of each sample, a view.
        targets: Label of each sample, a view.

    Raises:
        FileNotFoundError: `root` is missing or has no class folder, or a class has no valid file.

    Example:
        >>> dataset = ImageFolder("train")  # doctest: +SKIP
        >>> image, label = dataset[0]  # doctest: +SKIP
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        folder = os.fspath(root)
        if not isinstance(folder, str):
            raise TypeError(f"root must be str or a PathLike of str, got {root!r}; use os.fsdecode(root)")
        self.root = os.path.expanduser(folder)
        self.extensions = IMG_EXTENSIONS if is_valid_file is None else None
        self.classes, self.class_to_idx = _find_classes(self.root)
        table = _scan(self.root, self.class_to_idx, is_valid_file or _has_image_extension, self.extensions, allow_empty)
        super().__init__(table, transform, target_transform)

    def __repr__(self) -> str:
        return (
            f"ImageFolder({self.root!r}, {len(self)} samples, {len(self.classes)} classes, transform={self.transform})"
        )


def _find_classes(root: str) -> tuple[list[str], dict[str, int]]:
    with os.scandir(root) as entries:
        classes = sorted(entry.name for entry in entries if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {root}.")
    return classes, {name: label for label, name in enumerate(classes)}


def _scan(
    root: str,
    class_to_idx: dict[str, int],
    is_valid_file: Callable[[str], bool],
    extensions: tuple[str, ...] | None,
    allow_empty: bool,
) -> PathTable:
    builder = PathTableBuilder()
    empty = []
    for name, label in class_to_idx.items():
        num_files = 0
        for folder, files in sorted(_walk(os.path.join(root, name))):
            prefix = os.path.join(folder, "")
            valid = [file for file in sorted(files) if is_valid_file(prefix + file)]
            builder.extend_folder(folder, valid, label)
            num_files += len(valid)
        if num_files == 0:
            empty.append(name)
    if empty and not allow_empty:
        supported = f"Supported extensions are: {', '.join(extensions)}" if extensions is not None else ""
        raise FileNotFoundError(f"Found no valid file for the classes {', '.join(empty)}. {supported}")
    return builder.build()


def _has_image_extension(path: str) -> bool:
    return path.lower().endswith(IMG_EXTENSIONS)


class _Directory:
    """A directory on the way down from a class folder, to notice a link that leads back up."""

    def __init__(self, path: str, parent: _Directory | None, is_below_link: bool) -> None:
        self.path = path
        self.parent = parent
        self.is_below_link = is_below_link
        self._identity: tuple[int, int] | None = None

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode; asked of the system only where there are links."""
        if self._identity is None:
            status = os.stat(self.path)
            self._identity = (status.st_dev, status.st_ino)
        return self._identity

    def containing(self) -> _Directory | None:
        """The directory above that is this one, or None."""
        above = self.parent
        top = self
        while above is not None:
            if above.identity == self.identity:
                return above
            top, above = above, above.parent
        return _physical_parent(top.path, self.identity)


def _physical_parent(class_folder: str, identity: tuple[int, int]) -> _Directory | None:
    path = os.path.realpath(class_folder)
    while (parent := os.path.dirname(path)) != path:
        directory = _Directory(parent, None, False)
        if directory.identity == identity:
            return directory
        path = parent
    return None


def _walk(class_folder: str) -> Iterator[tuple[str, list[str]]]:
    """Each directory at or below `class_folder` with the names in it that are not directories.

    Follows links; what cannot be listed is skipped, as ``os.walk`` does by default. Unlike it, does not enter a
    directory from below itself.
    """
    pending = [_Directory(class_folder, None, False)]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory.path) as entries:
                listed = [(entry.name, _is_directory(entry), _is_link(entry)) for entry in entries]
        except OSError:
            continue
        yield directory.path, [name for name, is_directory, _ in listed if not is_directory]
        for name, is_directory, is_link in listed:
            if is_directory:
                path = os.path.join(directory.path, name)
                child = _Directory(path, directory, is_link or directory.is_below_link)
                if not _leads_back(child):
                    pending.append(child)


def _leads_back(directory: _Directory) -> bool:
    if not directory.is_below_link:
        return False
    try:
        container = directory.containing()
    except OSError:  # removed since it was listed; listing it will say so
        return False
    if container is not None:
        warnings.warn(
            f"{directory.path!r} leads back to {container.path!r}, which contains it: its files are not indexed again",
            stacklevel=2,
        )
    return container is not None


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links: os.walk lists it as a file
        return False


def _is_link(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink()
