"""XML as a small tree whose every element knows its file and line, with `${...}` and `xi:include` resolved.

The parser is expat itself: what the library lays over it draws in HTTP and mail, which takes longer than all
the rest of opening a store. Entity declarations and external references are refused, as they could make a
small file fill the memory or fetch others. Only files on this machine are included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat

from journalfs import limits
from journalfs.config.files import read_beginning
from journalfs.errors import ConfigError

_SUBSTITUTION_PASSES_MAX: Final = 8


@dataclass(slots=True)
class Element:
    """One element. Names are without their namespace prefix."""

    name: str
    file: Path
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    """Its own character data, all of it, trimmed."""
    children: list[Element] = field(default_factory=list)

    def find(self, name: str) -> Element | None:
        """The first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def every(self, name: str) -> Iterator[Element]:
        return (child for child in self.children if child.name == name)

    def error(self, reason: str, *, setting: str | None = None) -> ConfigError:
        return ConfigError(self.file, reason, line=self.line, setting=setting or self.name)


@dataclass(slots=True)
class Loader:
    """Loads a configuration with what it includes. `warnings` collects what was odd but did no harm."""

    properties: Mapping[str, str]
    """Values for `${name}`; `${name:default}` falls back to its default, the rest to nothing, as in the
    broker.
    """
    warnings: list[str] = field(default_factory=list)
    _unknown: set[str] = field(default_factory=set)
    elements: int = 0
    """How many there are in all files."""
    files: list[Path] = field(default_factory=list)
    """What was opened, each file as often as it is included."""

    def load(self, path: Path) -> Element:
        """Parse `path`. Raises `ConfigError` with file and line, `SystemFailure` when it cannot be read."""
        return self._load(path, depth=0)

    def _load(self, path: Path, *, depth: int) -> Element:
        self.files.append(path)
        if len(self.files) > limits.XINCLUDE_FILES_MAX or depth > limits.XINCLUDE_FILES_MAX:
            raise ConfigError(
                path, f"more than {limits.XINCLUDE_FILES_MAX} files are included; do they go in circles?"
            )
        root = _parse(path, _read(path), self)
        self._resolve(root, depth)
        return root

    def _resolve(self, element: Element, depth: int) -> None:
        element.text = self._substitute(element.text, element).strip()
        element.attributes = {
            key: self._substitute(value, element) for key, value in element.attributes.items()
        }
        resolved = []
        for child in element.children:
            if child.name == "include" and "href" in child.attributes:
                resolved.append(self._include(child, depth))
            else:
                self._resolve(child, depth)
                resolved.append(child)
        element.children = resolved

    def _include(self, element: Element, depth: int) -> Element:
        from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - few configurations include others

        href = self._substitute(element.attributes["href"], element).strip()
        if element.attributes.get("parse", "xml") != "xml" or "xpointer" in element.attributes:
            raise element.error("only whole XML files can be included", setting="xi:include")
        parts = urlsplit(href)
        if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
            raise element.error(f"{href!r} is not a file on this machine", setting="xi:include")
        target = element.file.parent / unquote(parts.path)
        if not target.is_file():
            raise element.error(f"there is no file {target}", setting="xi:include")
        return self._load(target, depth=depth + 1)

    def _substitute(self, text: str, element: Element) -> str:
        for _ in range(_SUBSTITUTION_PASSES_MAX):
            if "${" not in text:
                break
            text = self._substituted_once(text, element)
        return text

    def _substituted_once(self, text: str, element: Element) -> str:
        """Each `${` with what stands up to the next brace, from left to right."""
        pieces: list[str] = []
        at = length = 0
        while (begin := text.find("${", at)) >= 0 and (end := text.find("}", begin)) >= 0:
            pieces += text[at:begin], self._property(text[begin + 2 : end], element)
            length += len(pieces[-2]) + len(pieces[-1])
            at = end + 1
            if length > limits.CONFIG_TEXT_CHARS_MAX:
                raise element.error(
                    f"its ${{...}} become more than {limits.CONFIG_TEXT_CHARS_MAX} characters"
                )
        return "".join((*pieces, text[at:]))

    def _property(self, expression: str, element: Element) -> str:
        name, has_default, default = expression.partition(":")
        value = self.properties.get(name.strip())
        if value is None:
            if not has_default and name not in self._unknown:
                self._unknown.add(name)
                if len(self._unknown) <= limits.UNKNOWN_PROPERTIES_TOLD_MAX:
                    shown = name.strip()[: limits.NAME_BYTES_MAX]
                    place = f"{element.file}:{element.line}"
                    self.warnings.append(f"{place}: ${{{shown}}} is not known here and is taken as empty")
            value = default.strip()
        return value


def _read(path: Path) -> bytes:
    data = read_beginning(path, limits.BROKER_XML_BYTES_MAX + 1)
    if len(data) > limits.BROKER_XML_BYTES_MAX:
        raise ConfigError(
            path, f"a configuration of more than {limits.BROKER_XML_BYTES_MAX} bytes is not read"
        )
    return data


def _parse(path: Path, data: bytes, loader: Loader) -> Element:
    builder = _Builder(path, loader)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = f"not well-formed: {expat.ErrorString(error.code)}"
        raise ConfigError(path, reason, line=error.lineno) from error
    assert builder.root is not None, "a document that parses has a root"
    return builder.root


class _Builder:
    """Makes elements of what the parser reports, and refuses what could make a small file large, or fetch
    another one, while it is parsed.
    """

    def __init__(self, path: Path, loader: Loader) -> None:
        self._loader = loader
        self.root: Element | None = None
        self._path = path
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.UnparsedEntityDeclHandler = self._refuse_entity
        self.parser.ExternalEntityRefHandler = self._refuse_entity

    @property
    def _line(self) -> int:
        return self.parser.CurrentLineNumber

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= limits.BROKER_XML_DEPTH_MAX:
            raise ConfigError(self._path, "elements are nested too deeply", line=self._line)
        self._loader.elements += 1
        if self._loader.elements > limits.BROKER_XML_ELEMENTS_MAX:
            reason = f"a configuration of more than {limits.BROKER_XML_ELEMENTS_MAX} elements is not read"
            raise ConfigError(self._path, reason, line=self._line)
        element = Element(name.rpartition(":")[2], self._path, self._line, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def _end(self, _name: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def _characters(self, content: str) -> None:
        self._texts[-1].append(content)

    def _refuse_entity(self, *_declared: object) -> NoReturn:
        reason = "entity declarations are refused; use xi:include for parts of a configuration"
        raise ConfigError(self._path, reason, line=self._line)
