"""Reads what a start script of a broker would set, without running any of it.

Understood are assignments, quotes, `$NAME`, `${NAME:-otherwise}`, `export`, `unset`, `.`, and `if` with tests
that look at values and files. Whatever else a script does is not done; what is set by it is not known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

from journalfs import limits
from journalfs.config.files import read_beginning
from journalfs.errors import SystemFailure

_TOKEN: Final = re.compile(
    r"""(?P<space>(?:[ \t\r]|\\\n)+)|(?P<comment>\#[^\n]*)|(?P<end>\n|;;|;|&&|\|\||\||&|\(|\)|<|>)"""
    r"""|(?P<word>(?:'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`|\$\((?:[^()]|\([^)]*\))*\)|\\.|[^\s'"`\\;&|()<>])+)|(?P<odd>.)""",
    re.DOTALL,
)
_PIECE: Final = re.compile(
    r"""'(?P<plain>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|(?P<bare>(?:\\.|[^'"])+)""", re.DOTALL
)
_EXPANSION: Final = re.compile(
    r"\\(?P<escaped>.)|\$\{(?P<braced>\w+)(?::?-(?P<otherwise>[^}]*))?\}|\$(?P<name>\w+|[@*#?$!-])"
    r"|(?P<unknown>`|\$[({])",
    re.DOTALL,
)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OPENS: Final = frozenset(("for", "while", "until", "case"))
_CLOSES: Final = frozenset(("fi", "done", "esac"))
_KEYWORDS: Final = frozenset(("if", "elif", "then", "else", "do", "{", "}"))
_SCRIPTS_MAX: Final = 16


class _Block(Enum):
    """What becomes of the commands of an `if`, a loop or a `case` that is open."""

    APPLIES = auto()
    SKIPPED = auto()
    DONE = auto()
    """Another part of the same `if` applied."""
    UNKNOWN = auto()
    """It takes running something to know whether they apply."""


class _UnknownError(Exception):
    """It takes running something to know a value."""


@dataclass(slots=True)
class Script:
    """What is set so far; `run` adds what a file sets."""

    variables: dict[str, str]
    unknown: set[str] = field(default_factory=set)
    """Names that get a value which is not known."""
    unreadable: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    """The words of the `exec` that ends it; empty: there is none."""
    elsewhere: Path | None = None
    """Where files are looked for first that the script reads: what it names may be another instance's."""
    kept: frozenset[str] = frozenset()
    """Names whose value no script changes,"""
    said: dict[str, str] = field(default_factory=dict)
    """and what scripts said instead."""

    def run(self, path: Path) -> None:
        """Raises `SystemFailure` when it cannot be read."""
        if len(self.files) >= _SCRIPTS_MAX:
            return
        self.files.append(path)
        blocks: list[_Block] = []
        succeeded = True
        text = read_beginning(path, limits.BROKER_XML_BYTES_MAX).decode("utf-8", "replace")
        for joined, command in _commands(text):
            words = command
            while words and words[0] in _KEYWORDS:
                self._keyword(words[0], words[1:], blocks)
                words = [] if words[0] in ("if", "elif") else words[1:]
            if not words:
                continue
            if words[0] in _CLOSES:
                del blocks[-1:]
            elif words[0] in _OPENS:
                blocks.append(_Block.SKIPPED)
            elif self.last or any(block is not _Block.APPLIES for block in blocks):
                assigned = _ASSIGNMENT.fullmatch(words[0])
                if assigned and _Block.UNKNOWN in blocks and _Block.SKIPPED not in blocks:
                    self.unknown.add(assigned[1])
            elif joined not in ("&&", "||") or succeeded is (joined == "&&"):
                succeeded = self._command(words, path)

    def _keyword(self, keyword: str, condition: list[str], blocks: list[_Block]) -> None:
        """What stands in front of a command decides whether the next ones apply."""
        if keyword == "if":
            blocks.append(self._block(condition))
        elif keyword == "elif" and blocks:
            blocks[-1] = self._block(condition) if blocks[-1] is _Block.SKIPPED else _Block.DONE
        elif keyword == "else" and blocks:
            turned = {_Block.SKIPPED: _Block.APPLIES, _Block.UNKNOWN: _Block.UNKNOWN}
            blocks[-1] = turned.get(blocks[-1], _Block.DONE)

    def _block(self, condition: list[str]) -> _Block:
        try:
            return _Block.APPLIES if self._holds(condition) else _Block.SKIPPED
        except _UnknownError:
            return _Block.UNKNOWN

    def _holds(self, words: list[str]) -> bool:
        """Raises `_UnknownError`."""
        found = [self.expand(word) for word in words]
        negated = found[:1] == ["!"]
        found = found[negated:]
        if found[:1] in (["["], ["test"]):
            found = found[1:-1] if found[0] == "[" else found[1:]
            if found[:1] == ["!"]:
                negated, found = not negated, found[1:]
            return _test(found) is not negated
        if found not in (["true"], ["false"]):
            raise _UnknownError
        return (found == ["true"]) is not negated

    def _command(self, words: list[str], path: Path) -> bool:
        """Do what one command does, and say whether it succeeds."""
        name = words[0]
        if name in ("[", "test"):
            try:
                return self._holds(words)
            except _UnknownError:
                return False
        if name in (".", "source") and len(words) > 1:
            self._source(words[1], path)
        elif name == "unset":
            for one in words[1:]:
                self.variables.pop(one, None)
        elif name == "exec":
            self.last = list(self._expanded(words[1:]))
        elif name in ("export", "readonly", "local") or _ASSIGNMENT.fullmatch(name):
            assignments = [_ASSIGNMENT.fullmatch(word) for word in words]
            if name in ("export", "readonly", "local") or all(assignments):
                for found in filter(None, assignments):
                    self._assign(found[1], found[2])
        return True

    def _assign(self, name: str, value: str) -> None:
        try:
            found = self.expand(value)
        except _UnknownError:
            if name not in self.kept:
                self.unknown.add(name)
                self.variables.pop(name, None)
            return
        if name in self.kept:
            self.said[name] = found
            return
        self.variables[name] = found
        self.unknown.discard(name)

    def _source(self, word: str, path: Path) -> None:
        try:
            target = path.parent / self.expand(word)
            own = target if self.elsewhere is None else self.elsewhere / target.name
            if own.is_file() or not target.is_file():
                target = own
            self.run(target)
        except _UnknownError:
            self.unreadable.append(f"{path}: which file `. {word}` reads is not known without running it")
        except SystemFailure as error:
            self.unreadable.append(str(error))

    def words(self, name: str) -> list[str]:
        """What a variable becomes that is written without quotes."""
        return self.variables.get(name, "").split()

    def _expanded(self, words: list[str]) -> Iterator[str]:
        for word in words:
            try:
                found = self.expand(word)
            except _UnknownError:
                continue
            yield from [found] if '"' in word or "'" in word else found.split()

    def expand(self, word: str) -> str:
        """Raises `_UnknownError`."""
        pieces = _PIECE.finditer(word)
        return "".join(
            self._expand(piece["double"] or piece["bare"] or "") if piece["plain"] is None else piece["plain"]
            for piece in pieces
        )

    def _expand(self, text: str) -> str:
        return _EXPANSION.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        if found["escaped"] is not None:
            return "" if found["escaped"] == "\n" else found["escaped"]
        name = found["braced"] or found["name"]
        if found["unknown"] is not None or name in self.unknown:
            raise _UnknownError
        return self.variables.get(name) or self._expand(found["otherwise"] or "")


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The words of each command, as they are written, and what joins it to the one before."""
    words: list[str] = []
    joined = "\n"
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "word":
            words.append(token[0])
        elif token.lastgroup == "end":
            if words:
                yield joined, words
            words, joined = [], token[0]
    if words:
        yield joined, words


_TESTS: Final[Mapping[str, Callable[[str], bool]]] = {
    "-z": lambda text: not text,
    "-n": bool,
    "-f": os.path.isfile,
    "-d": os.path.isdir,
    "-e": os.path.exists,
    "-r": os.path.exists,
}


def _test(words: list[str]) -> bool:
    match words:
        case [operator, text] if operator in _TESTS:
            return _TESTS[operator](text)
        case [one, ("=" | "=="), other]:
            return one == other
        case [one, "!=", other]:
            return one != other
        case [text]:
            return bool(text)
    raise _UnknownError


def variables_for(instance: Path, etc: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What a script begins with that starts the broker of an instance."""
    kept = {name: environment[name] for name in ("HOME", "USER", "HOSTNAME") if name in environment}
    return {**kept, "1": "run", "ARTEMIS_INSTANCE": str(instance), "ARTEMIS_INSTANCE_ETC": str(etc)}
