"""Names of extended attributes on their way to the kernel and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

NAME_BYTES_MAX: Final = 255
"""Longest name the kernel passes (XATTR_NAME_MAX)."""

VALUE_BYTES_MAX: Final = 65_536
"""Longest value it passes (XATTR_SIZE_MAX)."""

LIST_BYTES_MAX: Final = 65_536
"""Longest list of names it passes, each with its NUL (XATTR_LIST_MAX)."""


_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]|%(?=[01][0-9A-F]|25|7F|[89][0-9A-F])")
"""Characters that a terminal takes for a command, and the one that begins an escape."""
_ESCAPES: Final = re.compile(r"%([01][0-9A-F]|25|7F|[89][0-9A-F])")


def listed_names(attributes: Mapping[str, bytes]) -> list[bytes]:
    """The names that can be asked for.

    A name or value beyond the kernel's limits is left out: `cp -a` and `getfattr -d` fail on a file whose
    listed attribute cannot be had. The message's line has them all.
    """
    listed: list[bytes] = []
    room = LIST_BYTES_MAX
    for text, value in attributes.items():
        name = _ESCAPED.sub(_escape, text).encode("utf-8", "surrogatepass")
        room -= len(name) + 1
        if room < 0:
            break
        if len(name) <= NAME_BYTES_MAX and len(value) <= VALUE_BYTES_MAX and b"\0" not in name:
            listed.append(name)
    return listed


def attribute_name(name: bytes) -> str | None:
    """The attribute that a request is about; None for bytes that no attribute's name is encoded as."""
    try:
        text = name.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return _ESCAPES.sub(lambda match: chr(int(match[1], 16)), text)


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"
