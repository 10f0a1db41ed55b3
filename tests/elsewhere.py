"""Stores that tests make in files, kept in a database instead: `--kind`.

A folder with one becomes, where a command is first given it, one whose broker.xml says which database has all
that was in its files. So tests need not know of databases to run on them.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import uuid
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

from journalfs.config.database import DatabaseStore, database_named
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.errors import JournalfsError
from journalfs.records.tables.filling import fill_tables
from tests.tables.instances import jdbc_place
from tests.tables.servers import Server, postgresql

CONFIG = """<configuration><core>
<journal-directory>journal</journal-directory><bindings-directory>bindings</bindings-directory>
<large-messages-directory>large-messages</large-messages-directory>
<paging-directory>paging</paging-directory></core></configuration>"""
"""Of a store that no broker has configured."""

SAID = "<store><database-store><jdbc-connection-url>{url}</jdbc-connection-url></database-store></store>"


class Elsewhere:
    """`close` it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._undo = ExitStack()
        self._numbers = itertools.count()
        self._copies: dict[Path, Path] = {}
        self._urls: dict[Path, str] = {}
        self.shared: list[Path] = []
        """Folders in which nothing may change."""

    @cached_property
    def folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="jfs-kind-"))
        folder.chmod(0o755)
        self._undo.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    @cached_property
    def _server(self) -> Server:
        return self._undo.enter_context(postgresql())

    def close(self) -> None:
        self._undo.close()

    def word(self, word: str) -> str:
        """What to give a command instead of what a test gives it."""
        path = Path(word)
        if not path.is_absolute() or not os.path.isdir(path) or os.path.ismount(path):
            return word
        if any(one in path.parents for one in self.shared):
            return str(self._copy(path))
        self._move(path)
        return word

    def _copy(self, path: Path) -> Path:
        if path not in self._copies:
            self._copies[path] = self.folder / str(next(self._numbers)) / path.name
            shutil.copytree(path, self._copies[path], ignore=shutil.ignore_patterns("journalfs"))
        self._move(self._copies[path])
        return self._copies[path]

    def _move(self, path: Path) -> None:
        try:
            layout = locate_store(path, adopting=False)
        except DatabaseStore:
            return
        except JournalfsError:
            # A test that says other settings says nothing of the database.
            if path in self._urls and (path / "broker.xml").exists():
                say(path / "broker.xml", self._urls[path])
            return
        self._urls[path] = url = self._new_url()
        settings = database_named(url)
        assert settings is not None
        fill_tables(settings, path, str(uuid.uuid4()))
        self._say_where(path, layout, url)

    def _say_where(self, path: Path, layout: StoreLayout, url: str) -> None:
        for folder in (layout.journal_dir, layout.bindings_dir, layout.large_dir, layout.paging_dir):
            shutil.rmtree(folder, ignore_errors=True)
        config = layout.broker_xml
        if config is None:
            config = path / "broker.xml"
            config.write_text(CONFIG)
            shutil.copystat(path, config)
            config.chmod(0o644)
            os.chown(config, path.stat().st_uid, path.stat().st_gid)
        say(config, url)

    def _new_url(self) -> str:
        name = f"kind{next(self._numbers)}"
        return f"sqlite:///{self.folder}/{name}.db" if self.kind == "sqlite" else self._server.make(name)


def say(config: Path, url: str) -> None:
    """Have a broker.xml say which database."""
    said = SAID.format(url=jdbc_place(url))
    text = re.sub(r"<store>.*?</store>", "", config.read_text(), flags=re.DOTALL)
    config.write_text(re.sub(r"<core[^>]*>", lambda found: found[0] + said, text, count=1))
