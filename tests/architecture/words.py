"""Plain words: finds sentences that a reader stumbles over in docstrings, comments and documents.

`python tests/architecture/words.py [path ...]` prints each finding.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

NO_PERSON = "".join(f"(?<!{word} )" for word in ("user", "User", "users", "Users", "people", "anyone", "person"))
# Pattern -> what to write. Docstrings, comments and the text of documents are searched, without code in backquotes.
RULES = {
    r"\b(Of|What|Whose|Whoever|So many|Such)\b": "begins a sentence with '{}': begin with its subject",
    r"\b[Ii]n the places? of\b": "'{}': write 'instead of', or 'in' with the place",
    r"\b[Bb]ehind\b": "'{}': write 'after' for time and order",
    r"\b(that|those) of\b": "'{}': repeat the noun",
    rf"{NO_PERSON}\b(who|whom|whoever)\b": "'{}': a component is 'it'",
    r"\bfacts\b": "'{}': write 'metadata', or name them",
    r"\bhangs on\b": "'{}': write 'depends on'",
}
FIRST_WORDS = re.compile(r"(Of|What|Whose|Whoever|Where|So many|Such)\b")
ARTICLES = re.compile(r"(The|A|An|All|Each|Every|Whether|True|None|Number|How)\b")
# Third person verbs end in s; these do not begin a sentence that says what the function does.
VERB = re.compile(r"[A-Z][a-z]*s\b")
NOT_VERBS = {"This", "Its", "Always", "Batches", "Samples", "Yours", "Is", "As", "Has", "Threads", "Images", "Files"}

CODE = re.compile(r"```.*?```|``[^`]*``|`[^`]*`|\"[^\"\n]*\"|'[^'\n]{1,40}'", re.DOTALL)
CPP_COMMENT = re.compile(r"(?:^[ \t]*//[^\n]*\n)+|//[^\n]*|/\*.*?\*/", re.MULTILINE | re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')


def prose_findings(text: str, line: int) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) for each rule that `text`, which begins at `line`, breaks."""
    plain = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text)
    for pattern, advice in RULES.items():
        for found in re.finditer(pattern, plain):
            yield line + plain.count("\n", 0, found.start()), advice.format(found.group())


def first_word_finding(text: str, kind: str, line: int) -> Iterator[tuple[int, str]]:
    if found := FIRST_WORDS.match(text.strip()):
        yield line, f"{kind} begins with '{found.group()}'"


def is_property(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(ast.unparse(one).split(".")[-1] in ("property", "cached_property") for one in decorators)


def docstring_findings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if not isinstance(node, kinds) or (text := ast.get_docstring(node)) is None:
            continue
        line = node.body[0].lineno
        yield from first_word_finding(text, "docstring", line)
        yield from prose_findings(text, line)
        first = text.split(maxsplit=1)[0].strip("`.,:;") if text.split() else ""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("test_"):
            if is_property(node):
                if not ARTICLES.match(text):
                    yield line, f"a property's docstring begins with a noun and its article, not '{first}'"
            elif not VERB.match(text) or first in NOT_VERBS:
                yield line, f"a function's docstring begins with a verb in the third person, not '{first}'"


def python_comments(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment; lines that follow each other are one."""
    last, begin, lines = -2, 0, [""]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        is_alone = token.line.lstrip().startswith("#")
        if line != last + 1 or not is_alone:
            if lines != [""]:
                yield begin, "\n".join(lines)
            begin, lines = line, []
        lines.append(token.string.lstrip("#: "))
        last = line if is_alone else -2
    if lines != [""]:
        yield begin, "\n".join(lines)


def python_findings(text: str) -> Iterator[tuple[int, str]]:
    yield from docstring_findings(ast.parse(text))
    for line, comment in python_comments(text):
        yield from first_word_finding(comment, "comment", line)
        yield from prose_findings(comment, line)


def cpp_findings(text: str) -> Iterator[tuple[int, str]]:
    code = STRING.sub(lambda string: '"' + " " * (len(string.group()) - 2) + '"', text)
    for found in CPP_COMMENT.finditer(code):
        comment = re.sub(r"^[ \t]*(//+|/\*+|\*+/?)[ \t]?", "", found.group(), flags=re.MULTILINE)
        line = code.count("\n", 0, found.start()) + 1
        yield from first_word_finding(comment, "comment", line)
        yield from prose_findings(comment, line)


def document_findings(text: str) -> Iterator[tuple[int, str]]:
    yield from prose_findings(text, 1)


FINDERS = {".py": python_findings, ".pyi": python_findings, ".md": document_findings} | dict.fromkeys(
    (".h", ".cpp", ".cu", ".c"), cpp_findings
)


def findings(path: Path) -> list[tuple[int, str]]:
    """(line, what is wrong) for each sentence of a file that breaks a rule; none for files of other kinds."""
    finder = FINDERS.get(path.suffix)
    return [] if finder is None else sorted(set(finder(path.read_text())))


def files(root: Path) -> list[Path]:
    """The files with words in them: all code and documents of the project but this one, which has the words."""
    names = ["fastload", "csrc", "tests", "benchmarks", "fuzz", "examples", "docs"]
    found = [path for name in names for path in (root / name).rglob("*")]
    found += [*root.glob("*.py"), *root.glob("*.md")]
    left_out = {Path(__file__).resolve(), Path(__file__).with_name("test_words.py").resolve(), root / "README.zh.md"}
    return sorted(path for path in found if path.suffix in FINDERS and path not in left_out)


if __name__ == "__main__":
    chosen = [Path(word).resolve() for word in sys.argv[1:]] or [ROOT]
    for path in files(ROOT):
        if any(path == one or one in path.parents for one in chosen):
            for line, problem in findings(path):
                print(f"{path.relative_to(ROOT)}:{line}: {problem}")
