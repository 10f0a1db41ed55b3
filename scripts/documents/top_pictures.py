"""The pictures of docs/operate/top.md: what `journalfs top` shows of a store that a broker wrote.

`python -m scripts.documents.top_pictures` writes them into docs/pictures/. A test makes them again, and
compares what stands in them.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Final

from textual.pilot import Pilot
from textual.widgets import Input

from journalfs.top.app import Top
from journalfs.top.dialogs import Confirm
from scripts.documents.rules import DOCS, ROOT

TARGET: Final = DOCS / "pictures"
SIZE: Final = (104, 22)
NOW_MS: Final = 1_795_260_000_000
"""The clock of the pictures, in milliseconds since 1970."""
LOOKS_MAX: Final = 1200
SELECTOR: Final = "AMQPriority > 4"


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (TARGET / name).write_text(picture)


def pictures() -> dict[str, str]:
    """Name of a file -> what belongs into it."""
    with tempfile.TemporaryDirectory() as folder:
        packed = ROOT / "tests/stores/orders-basic.tar.zst"
        subprocess.run(["tar", "-C", folder, "--zstd", "-xf", str(packed)], check=True)
        (store,) = [one.parent for one in Path(folder).rglob("journal") if (one.parent / "bindings").is_dir()]
        os.environ["XDG_CACHE_HOME"] = folder
        with chdir(store.parent):
            return asyncio.run(_drawn(Path(store.name)))


async def _drawn(store: Path) -> dict[str, str]:
    app, found = Top(store, write=True, now_ms=lambda: NOW_MS), dict[str, str]()
    async with app.run_test(size=SIZE) as pilot:

        def rows() -> list[tuple[str, ...]]:
            return [app.list.row(at) for at in range(min(10, len(app.list)))]

        await _until(pilot, lambda: bool(rows()) and all("…" not in one and one[2] != "-" for one in rows()))
        found["top-queues.svg"] = _svg(app)
        await pilot.press("enter")
        await _until(pilot, lambda: bool(app.screen.query("#selector")))
        app.screen.query_one("#selector", Input).value = SELECTOR
        screen = app.screen
        await _until(pilot, lambda: getattr(screen, "selector", "") == SELECTOR)
        await _until(pilot, lambda: getattr(screen, "pages").at(0) is not None)  # noqa: B009
        await pilot.press("space", "space")
        found["top-messages.svg"] = _svg(app)
        await pilot.press("d")
        await _until(pilot, lambda: isinstance(app.screen, Confirm))
        found["top-plan.svg"] = _svg(app)
        await pilot.press("escape")
    return found


async def _until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    for _ in range(LOOKS_MAX):
        if holds():
            await pilot.pause(0.2)
            return
        await pilot.pause(0.05)
    raise AssertionError("the picture never came to be")


def _svg(app: Top) -> str:
    """Without fonts from other hosts: a reader's own fixed-width font will do."""
    picture = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", app.export_screenshot(), flags=re.DOTALL)
    return "\n".join(filter(str.strip, picture.splitlines())) + "\n"


def texts(picture: str) -> list[str]:
    """What can be read in a picture, in order."""
    found = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    return [html.unescape(one).replace("\N{NO-BREAK SPACE}", " ").strip() for one in found]


if __name__ == "__main__":
    main()
