"""A hook of MkDocs: Markdown files outside docs/ become pages of the site, and links between files stay true there.

In the repository, pages link to files by their paths, so that the links work on a forge and in an editor. Files outside
docs/ have other paths on the site: PAGES become pages, and every other linked file is copied below files/.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "overview.md",
    "README.zh.md": "overview.zh.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/photos/LICENSES.md": "photograph-licences.md",
}
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages and linked files outside docs/."""
    sources = [ROOT / "docs" / file.src_uri for file in files.documentation_pages()]
    for name, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
        sources.append(ROOT / name)
    linked = {target for source in sources for target in _linked_files(source)}
    for target in sorted(linked - {ROOT / name for name in PAGES}):
        if not target.is_relative_to(ROOT / "docs"):
            files.append(File.generated(config, _uri_of(target), abs_src_path=str(target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Writes the links of a page as the site needs them."""
    places = {uri: name for name, uri in PAGES.items()}
    source = ROOT / places.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    folder = Path(page.file.src_uri).parent

    def on_site(link: re.Match[str]) -> str:
        target = _target(source, link[2])
        return link[1] + os.path.relpath(_uri_of(target), folder) + link[3] if target.is_file() else link[0]

    return _LINK.sub(on_site, markdown)


def _linked_files(source: Path) -> set[Path]:
    targets = {_target(source, link[2]) for link in _LINK.finditer(source.read_text())}
    return {target for target in targets if target.is_file()}


def _target(source: Path, link: str) -> Path:
    return Path(os.path.normpath(source.parent / link))


def _uri_of(target: Path) -> str:
    """Returns the path on the site of a file of the repository."""
    name = target.relative_to(ROOT).as_posix()
    return PAGES.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else f"files/{name}")
