"""A folder with one sub-folder per class: torchvision's ImageFolder, with a compact index that is kept in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fastload._pillow._pillow import open_rgb
from fastload.sources._folder_index import IndexMode, read_folder
from fastload.sources._folder_scan import FolderScan
from fastload.sources._folder_table import FolderTable, pack
from fastload.sources._path_dataset import PathDataset

# os.path uses the strings as given; pathlib would normalise them and so change the samples.
# ruff: noqa: PTH111

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class ImageFolder(PathDataset):
    """Images laid out as ``root/class_name/**/image.ext``.

    Classes, their numbers, the samples and their order equal ``torchvision.datasets.ImageFolder``'s, with one
    exception: a linked directory that contains the link is not entered again (torchvision repeats it until the system
    refuses, about 40 times), and a warning names it. A directory that cannot be listed also causes a warning; its
    files are left out, as in torchvision. The class does not derive from torchvision's, which need not be installed.

    Threads list the folder, and the result is kept in an index file in the cache folder ($FASTLOAD_CACHE, else fastload
    in $XDG_CACHE_HOME or ~/.cache). The next start lists only directories whose modification or change time differs, or
    that changed less than a minute before they were listed.

    Args:
        root: The folder; ``~`` is expanded.
        transform: Called with the PIL RGB image of a sample.
        target_transform: Called with the label of a sample. With one, the data set is loaded in Python.
        loader: Called with the path of a sample; with a loader of your own, the data set is loaded in Python. Default:
            like torchvision's ``pil_loader``.
        is_valid_file: Called with each path; decides instead of the file extension. With one, there is no index file.
        allow_empty: Accept classes without a valid file.
        index: "auto": as above, but directories on a FUSE file system are always listed, because some of these keep a
            directory's times when its contents change. "trust": trust the times there, too. "off": no index file.

    Attributes:
        root: The argument, expanded.
        classes: Class names, sorted.
        class_to_idx: Class name -> label.
        samples, imgs: (path, label) of each sample: a view, equal to the list, that cannot be changed in place.
        targets: Label of each sample, also a view.
        loader, extensions: Like torchvision's.

    Raises:
        FileNotFoundError: `root` is missing or has no class folder, or a class has no valid file.
        TypeError: `root` is not a file name, or is bytes.
        ValueError: `index` is not one of the above.

    Example:
        >>> dataset = fastload.ImageFolder("train")
        >>> image, label = dataset[0]
        >>> image.mode, label, dataset.classes
        ('RGB', 0, ['class0', 'class1', 'class2'])
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = open_rgb,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        index: IndexMode = "auto",
    ) -> None:
        folder = os.fspath(root)
        if not isinstance(folder, str):
            raise TypeError(f"root must be str or a PathLike of str, got {root!r}; use os.fsdecode(root)")
        if index not in ("auto", "trust", "off"):
            raise ValueError(f"index must be 'auto', 'trust' or 'off', got {index!r}")
        self.root = os.path.expanduser(folder)
        self.extensions = IMG_EXTENSIONS if is_valid_file is None else None
        if is_valid_file is None:
            table = read_folder(self.root, IMG_EXTENSIONS, index).table
        else:
            table = FolderTable(self.root, pack(b"", FolderScan(self.root, None).run(is_valid_file)))
        self.classes = table.class_names()
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}
        if not allow_empty and (empty := table.empty_classes()):
            supported = f"Supported extensions are: {', '.join(self.extensions)}" if self.extensions else ""
            raise FileNotFoundError(f"Found no valid file for the classes {', '.join(empty)}. {supported}")
        super().__init__(table, transform, target_transform, loader)
