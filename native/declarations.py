"""What both build scripts share: C declarations for cffi, read from the headers, and the debug switch."""

import os
import re
from pathlib import Path


def declarations(header: Path, seen: set[Path]) -> str:
    """Return what a header declares, after the declarations of the headers that it includes, in the form that
    cffi takes: no comments, no preprocessor. The compiler finds the value of a `#define`.
    """
    if header in seen:
        return ""
    seen.add(header)
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    included = re.findall(r'^#include "(.+)"$', text, flags=re.MULTILINE)
    text = re.sub(r"^#define (JFS_\w+) .+$", r"@define \1 ...", text, flags=re.MULTILINE)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    own = re.sub(r"^@", "#", text, flags=re.MULTILINE)
    return "".join(declarations(header.parent / name, seen) for name in included) + own


def debug_macros() -> list[tuple[str, str | None]]:
    """Return the macros of a build with assertions if `JFS_DEBUG` is set in the environment, else none."""
    return [("JFS_DEBUG", None)] if os.environ.get("JFS_DEBUG") else []
