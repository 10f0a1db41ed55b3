"""XML as a small tree whose every element knows its file and line, with `${...}` and `xi:include` resolved.

Parsing goes through defusedxml: entity declarations and external references are refused. Only files on this
machine are included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from xml.sax import SAXParseException, handler
from xml.sax.xmlreader import AttributesImpl, Locator

from journalfs import limits
from journalfs.config.files import read_beginning
from journalfs.errors import ConfigError

_PROPERTY: Final = re.compile(r"\$\{([^}]*)\}")
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
    _files: int = 0

    def load(self, path: Path) -> Element:
        """Parse `path`. Raises `ConfigError` with file and line, `SystemFailure` when it cannot be read."""
        return self._load(path, depth=0)

    def _load(self, path: Path, *, depth: int) -> Element:
        self._files += 1
        if self._files > limits.XINCLUDE_FILES_MAX or depth > limits.XINCLUDE_FILES_MAX:
            raise ConfigError(
                path, f"more than {limits.XINCLUDE_FILES_MAX} files are included; do they go in circles?"
            )
        root = _parse(path, _read(path))
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
            text = _PROPERTY.sub(lambda match: self._property(match.group(1), element), text)
        return text

    def _property(self, expression: str, element: Element) -> str:
        name, has_default, default = expression.partition(":")
        value = self.properties.get(name.strip())
        if value is None:
            if not has_default:
                place = f"{element.file}:{element.line}"
                self.warnings.append(f"{place}: ${{{name.strip()}}} is not known here and is taken as empty")
            value = default.strip()
        return value


def _read(path: Path) -> bytes:
    data = read_beginning(path, limits.BROKER_XML_BYTES_MAX + 1)
    if len(data) > limits.BROKER_XML_BYTES_MAX:
        raise ConfigError(
            path, f"a configuration of more than {limits.BROKER_XML_BYTES_MAX} bytes is not read"
        )
    return data


def _parse(path: Path, data: bytes) -> Element:
    # Imported here: it draws in HTTP and mail, and many stores are opened without a configuration.
    import defusedxml.sax  # noqa: PLC0415
    from defusedxml.common import DefusedXmlException  # noqa: PLC0415

    builder = _Builder(path)
    try:
        defusedxml.sax.parseString(data, builder)
    except SAXParseException as error:
        raise ConfigError(
            path, f"not well-formed: {error.getMessage()}", line=error.getLineNumber()
        ) from error
    except DefusedXmlException as error:
        reason = "entity declarations are refused; use xi:include for parts of a configuration"
        raise ConfigError(path, reason, line=builder.line) from error
    assert builder.root is not None, "a document that parses has a root"
    return builder.root


class _Builder(handler.ContentHandler):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.root: Element | None = None
        self._path = path
        self._open: list[Element] = []
        self._locator: Locator | None = None

    @property
    def line(self) -> int:
        return (self._locator.getLineNumber() if self._locator else None) or 1

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802 (the name is the library's)
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802
        if len(self._open) >= limits.BROKER_XML_DEPTH_MAX:
            raise ConfigError(self._path, "elements are nested too deeply", line=self.line)
        element = Element(name.rpartition(":")[2], self._path, self.line)
        element.attributes = {key: attrs.getValue(key) for key in attrs.getNames()}
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElement(self, name: str) -> None:  # noqa: N802
        self._open.pop()

    def characters(self, content: str) -> None:
        self._open[-1].text += content
