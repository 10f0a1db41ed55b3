"""Folders with a broker.xml that names a database."""

from __future__ import annotations

import re
from pathlib import Path

CONFIG = """<configuration><core><store><database-store>
<jdbc-connection-url>{url}</jdbc-connection-url>{settings}</database-store></store></core></configuration>"""


def instance_at(folder: Path, url: str, **settings: int) -> Path:
    """`folder`, made if need be, with a broker.xml. Settings are without `jdbc-`, and with underscores."""
    said = "".join(
        f"<jdbc-{name}>{value}</jdbc-{name}>"
        for name, value in ((n.replace("_", "-"), v) for n, v in settings.items())
    )
    folder.mkdir(exist_ok=True)
    (folder / "broker.xml").write_text(CONFIG.format(url=jdbc_place(url), settings=said))
    return folder


def jdbc_place(url: str) -> str:
    """As Java writes it: its drivers take the user as a parameter."""
    return re.sub(r"//(\w+)@(.*)", r"//\2?user=\1", f"jdbc:{url}")
