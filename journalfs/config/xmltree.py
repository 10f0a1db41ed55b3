"""XML as a small tree whose every element knows its file and line, read as a broker reads its configuration.

`${...}` is replaced in the text of the file, before it is parsed; what `xi:include` names is put in its place
by libxml2, and `${...}` in that afterwards. Entity declarations and external references are refused, as they
could make a small file fill the memory or fetch others. Only regular files on this machine are included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from lxml import etree

from journalfs import limits
from journalfs.config.files import read_beginning
from journalfs.errors import ConfigError

_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_SUBSTITUTION_PASSES_MAX: Final = 8
_INCLUDE: Final = "{http://www.w3.org/2001/XInclude}include"
_FALLBACK: Final = "{http://www.w3.org/2001/XInclude}fallback"
_FILE, _LINE = "{urn:journalfs}file", "{urn:journalfs}line"
_NOWHERE: Final = "/proc/0/nowhere"


@dataclass(slots=True)
class Element:
    """One element. Names are without their namespace."""

    name: str
    file: Path
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    """Its own character data, all of it, trimmed."""
    children: list[Element] = field(default_factory=list)
    is_prefixed: bool = False
    """True for a name with a namespace's prefix, as `<a:core>`: a broker looks for names without one."""

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
    bases: Sequence[Path] = ()
    """Where else relative names are looked for: a broker does from the directory that it is started in."""
    warnings: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    """What was opened."""
    carried: Callable[[Path], Path] = Path
    """Where a file that is named is, of an instance that was copied or moved."""
    _documents: dict[Path, _Document] = field(default_factory=dict)
    """What is included, made ready."""
    _unknown: set[str] = field(default_factory=set)

    def load(self, path: Path) -> Element:
        """Parse `path`. Raises `ConfigError` with file and line, `SystemFailure` when it cannot be read."""
        text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), _read(path).decode("utf-8", "replace"))
        text = re.sub(r"^\ufeff?\s*<\?xml.*?\?>", "", text, count=1, flags=re.DOTALL)
        text = self.substitute(text, path, 1, whole=True)
        root = self._document(path, text.encode(), (path.parent, *self.bases), ()).root
        if root.tag == _INCLUDE:  # it is replaced itself, and needs something that it stands in
            around = b"<document>%b</document>" % etree.tostring(root)
            root = etree.fromstring(around, self._parser(), base_url=path.as_uri())
        try:
            root.getroottree().xinclude()
        except etree.XIncludeError as error:
            raise ConfigError(path, _one_line(error), setting="xi:include") from error
        element = self._element(root, path, 1)
        return element.children[0] if element.name == "document" and element.children else element

    def included(self, url: str) -> bytes:
        """What an include names."""
        document = self._documents.get(_local(url) or Path())
        if document is None:
            raise FileNotFoundError(url)
        return etree.tostring(document.root)

    def _parser(self) -> etree.XMLParser:
        parser = _bare_parser()
        parser.resolvers.add(_Included(self))
        return parser

    def _document(
        self, path: Path, data: bytes, bases: Sequence[Path], within: tuple[Path, ...]
    ) -> _Document:
        """A document whose elements say where they stand, its includes named in full and made ready, too."""
        self.files.append(path)
        root = _parsed(path, data, self._parser())
        number = str(len(self.files) - 1)
        document = _Document(root)
        for element in root.iter(etree.Element):
            element.set(_FILE, number)
            element.set(_LINE, str(element.sourceline))
            document.elements += 1
            if element.tag == _INCLUDE:
                self._make_ready(element, document, path, bases, (*within, path))
            _refuse_many(document.elements, path)
        return document

    def _make_ready(
        self, element: Any, document: _Document, path: Path, bases: Sequence[Path], within: tuple[Path, ...]
    ) -> None:
        """Raises `ConfigError` for what is not there, unless something stands in for it."""
        href = element.get("href", "").strip()
        document.includes += 1
        if not href:  # a part of the document itself, with what that includes
            document.elements *= 2
            return
        target = _local(href)
        target = None if target is None else self.carried(target)
        found = [one for base in bases if target is not None and (one := base / target).is_file()]
        if found and found[0].stat().st_size <= limits.BROKER_XML_BYTES_MAX:
            element.set("href", found[0].as_uri())
            if element.get("parse", "xml") == "xml":
                included = self._read_included(found[0], within)
                document.elements += included.elements
                document.includes += included.includes
        elif element.find(_FALLBACK) is not None:
            element.set("href", _NOWHERE)
        else:
            reason = f"{href!r} is not a file on this machine"
            if target is not None:
                reason = f"there is no file {path.parent / target}, or it is too large"
            raise ConfigError(path, reason, line=element.sourceline, setting="xi:include")
        if document.includes > limits.XINCLUDE_FILES_MAX:
            raise _too_many(path)

    def _read_included(self, path: Path, within: tuple[Path, ...]) -> _Document:
        if path in within:
            raise _too_many(path)
        if path not in self._documents:
            self._documents[path] = self._document(path, _read(path), (path.parent,), within)
        return self._documents[path]

    def _element(self, found: Any, file: Path, line: int, depth: int = 0) -> Element:
        if depth > limits.BROKER_XML_DEPTH_MAX:
            raise ConfigError(file, "elements are nested too deeply", line=line)
        attributes = dict(found.attrib)
        if _FILE in attributes:
            file, line = self.files[int(attributes.pop(_FILE))], int(attributes.pop(_LINE))
        element = Element(etree.QName(found).localname, file, line, is_prefixed=found.prefix is not None)
        element.text = self.substitute("".join(_texts(found)), file, line).strip()
        element.attributes = {
            etree.QName(key).localname: self.substitute(value, file, line)
            for key, value in attributes.items()
        }
        children = (child for child in found if isinstance(child.tag, str))
        element.children = [self._element(child, file, line, depth + 1) for child in children]
        return element

    # ---- properties ----

    def substitute(self, text: str, file: Path, line: int, *, whole: bool = False) -> str:
        """`text` with the values of its properties. Of a `whole` file, lines are counted, and values are
        written as XML has them.
        """
        for _ in range(_SUBSTITUTION_PASSES_MAX):
            if "${" not in text:
                break
            text = self._substituted_once(text, file, line, whole=whole)
        return text

    def _substituted_once(self, text: str, file: Path, line: int, *, whole: bool) -> str:
        """Each `${` with what stands up to the next brace, from left to right."""
        pieces: list[str] = []
        at = grown = 0
        while (begin := text.find("${", at)) >= 0 and (end := text.find("}", begin)) >= 0:
            line += text.count("\n", at, begin) if whole else 0
            value = self._property(text[begin + 2 : end], file, line)
            pieces += text[at:begin], escape(value) if whole else value
            line += text.count("\n", begin, end) if whole else 0
            at = end + 1
            grown += len(value)
            if grown > limits.CONFIG_TEXT_CHARS_MAX:
                reason = f"its ${{...}} become more than {limits.CONFIG_TEXT_CHARS_MAX} characters"
                raise ConfigError(file, reason, line=line)
        return "".join((*pieces, text[at:]))

    def _property(self, expression: str, file: Path, line: int) -> str:
        name, has_default, default = expression.partition(":")
        value = self.properties.get(name.strip())
        if value is None:
            if not has_default and name not in self._unknown:
                self._unknown.add(name)
                if len(self._unknown) <= limits.UNKNOWN_PROPERTIES_TOLD_MAX:
                    shown = name.strip()[: limits.NAME_BYTES_MAX]
                    self.warnings.append(
                        f"{file}:{line}: ${{{shown}}} is not known here and is taken as empty"
                    )
            value = default.strip()
        return value


@dataclass(slots=True)
class _Document:
    root: Any
    elements: int = 0
    """Of it and what it includes, each as often as it is included."""
    includes: int = 0


class _Included(etree.Resolver):
    """Reads what is included, and nothing else."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def resolve(self, url: str, _public: str, context: Any) -> Any:  # type: ignore[override]
        return self.resolve_string(self._loader.included(url), context, base_url=url)


def _bare_parser() -> etree.XMLParser:
    return etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)


def _parsed(path: Path, data: bytes, parser: etree.XMLParser) -> Any:
    if (at := data.find(b"<!ENTITY")) >= 0:
        reason = "entity declarations are refused; use xi:include for parts of a configuration"
        raise ConfigError(path, reason, line=data.count(b"\n", 0, at) + 1)
    try:
        root = etree.fromstring(data, parser, base_url=path.as_uri())
    except etree.XMLSyntaxError as error:
        raise ConfigError(path, f"not well-formed: {_one_line(error)}", line=error.lineno) from error
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and list(declared.entities()):  # type: ignore[union-attr]
        raise ConfigError(path, "entity declarations are refused")
    return root


def _refuse_many(elements: int, path: Path) -> None:
    most = limits.BROKER_XML_ELEMENTS_MAX
    if elements > most:
        raise ConfigError(path, f"a configuration of more than {most} elements is not read")


def _texts(found: Any) -> Iterator[str]:
    yield found.text or ""
    for child in found:
        yield child.tail or ""


def _local(href: str) -> Path | None:
    """The path that an address names; None: it is none of this machine."""
    parts = urlsplit(href)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path))


def _too_many(path: Path) -> ConfigError:
    most = limits.XINCLUDE_FILES_MAX
    return ConfigError(path, f"more than {most} files are included; do they go in circles?")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _read(path: Path) -> bytes:
    data = read_beginning(path, limits.BROKER_XML_BYTES_MAX + 1)
    if len(data) > limits.BROKER_XML_BYTES_MAX:
        raise ConfigError(
            path, f"a configuration of more than {limits.BROKER_XML_BYTES_MAX} bytes is not read"
        )
    return data
