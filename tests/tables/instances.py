"""Folders with a broker.xml that names a database."""

from __future__ import annotations

import re
from pathlib import Path

CONFIG = """<configuration><core><store><database-store>
<jdbc-connection-url>jdbc:{url}</jdbc-connection-url>{settings}</database-store></store></core></configuration>"""


def instance_at(folder: Path, url: str, **settings: int) -> Path:
    """`folder`, made if need be, with a broker.xml. Settings are without `jdbc-`, and with underscores."""
    user = re.search(r"//(\w+)@", url)
    place = url if user is None else url.replace(f"{user[1]}@", "") + f"?user={user[1]}"
    said = "".join(
        f"<jdbc-{name}>{value}</jdbc-{name}>"
        for name, value in ((n.replace("_", "-"), v) for n, v in settings.items())
    )
    folder.mkdir(exist_ok=True)
    (folder / "broker.xml").write_text(CONFIG.format(url=place, settings=said))
    return folder
