"""`journalfs top` by Textual's pilot, over real stores: what is on the screen, and what keys do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import journalfs
from tests.mounting import journalfs as command
from tests.mounting import mounted_for_writing

pytest.importorskip("textual")

from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea

from journalfs.top.acting import READ_ONLY
from journalfs.top.app import Overview, Top
from journalfs.top.dialogs import Confirm, Edit
from journalfs.top.messages import MessageScreen, MessagesScreen
from journalfs.top.table import Rows

LOOKS_MAX = 600
"""Times that a screen is looked at before a test fails."""
SIZE = (120, 30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    assert command("create", "--journal-type", "NIO", tmp_path / "store").returncode == 0
    with journalfs.open(tmp_path / "store", write=True) as store:
        queue = store.create("orders::billing")
        for number in range(200):
            queue.publish(f'{{"total": {number}}}', properties={"total": number, "region": "EU"})
        store.create("jobs::jobs").publish(b"\0\1bytes")
        letters = store["DLQ::DLQ"]
        for number in range(3):
            properties = {"_AMQ_ORIG_ADDRESS": "jobs", "_AMQ_ORIG_QUEUE": "jobs"}
            letters.publish(f"failed {number}", properties=properties)
    return tmp_path / "store"


@pytest.fixture
def mount(path: Path, tmp_path: Path) -> Iterator[Path]:
    with mounted_for_writing(path, tmp_path / "mnt") as mounted:
        yield mounted.path


class Told(Top):
    """Keeps what it tells."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.told: set[str] = set()

    def notify(self, message: str, **options: Any) -> None:
        self.told.add(message)
        super().notify(message, **options)


def run(path: Path, act: Callable[[Pilot[None], Told], Awaitable[None]]) -> None:
    app = Told(path)

    async def main() -> None:
        async with app.run_test(size=SIZE) as pilot:
            await act(pilot, app)

    asyncio.run(main())


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Go on until that holds: stores are asked in threads."""
    for _ in range(LOOKS_MAX):
        if holds():
            return
        await pilot.pause(0.05)
    raise AssertionError(f"it never came to it; on the screen is:\n{screen_text(pilot.app)}")


def screen_text(app: Any) -> str:
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in lines)


def shows(app: Any, *texts: str) -> Callable[[], bool]:
    return lambda: all(text in screen_text(app) for text in texts)


@pytest.mark.rule("S-443")
def test_queues_are_listed_sorted_and_filtered(path: Path) -> None:
    async def act(pilot: Pilot[None], app: Told) -> None:
        await until(pilot, shows(app, "orders::billing", "200", "read only"))
        rows = app.screen.query_one("#queue-rows", Rows)
        assert [app.list.row(at)[0] for at in range(2)] == ["orders::billing", "DLQ::DLQ"]
        await until(pilot, lambda: "…" not in app.list.row(0))
        await pilot.press("s", "s", "s", "s", "s")
        await until(pilot, lambda: app.list.sort == "name" and app.list.row(0)[0] == "DLQ::DLQ")
        await pilot.press("S")
        await until(pilot, lambda: app.list.row(0)[0] == "orders::billing")
        await pilot.press("slash", *"jobs")
        await until(pilot, lambda: rows.count == 1 and app.list.row(0)[0] == "jobs::jobs")
        assert app.screen.query_one("#filter", Input).value == "jobs"

    run(path, act)


def test_tabs(path: Path) -> None:
    async def act(pilot: Pilot[None], app: Told) -> None:
        await until(pilot, shows(app, "orders::billing"))
        await pilot.press("2")
        await until(pilot, shows(app, "DLQ::DLQ", "max-deliveries", "3"))
        await pilot.press("3")
        await until(pilot, shows(app, "free of", "journal", "orders::billing"))
        await pilot.press("4")
        await until(pilot, shows(app, "Waiting", "orders"))
        await pilot.press("5")
        await until(pilot, shows(app, "nothing was refused"))

    run(path, act)


def test_messages_of_a_queue(path: Path) -> None:
    async def act(pilot: Pilot[None], app: Told) -> None:
        await until(pilot, shows(app, "orders::billing"))
        await pilot.press("enter")
        await until(pilot, shows(app, "orders::billing: 200 messages", '{"total": 0}'))
        await pilot.press("end")
        await until(pilot, shows(app, '{"total": 199}'))
        await pilot.press("slash", *"total BETWEEN 50 AND")
        await until(pilot, lambda: "selector" in str(app.screen.query_one("#said", Static).render()))
        await pilot.press(*" 52")
        await until(pilot, shows(app, "orders::billing: 3 messages", '{"total": 51}'))
        await pilot.press("enter", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, MessageScreen))
        await until(pilot, shows(app, '"total": 51', "region", "EU", "sent to orders"))
        await pilot.press("x")
        await until(pilot, shows(app, "00000000  7b 22 74 6f"))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, Overview))

    run(path, act)


@pytest.mark.rule("S-443")
def test_a_store_that_is_read_is_not_changed(path: Path) -> None:
    async def act(pilot: Pilot[None], app: Told) -> None:
        await until(pilot, shows(app, "orders::billing"))
        await pilot.press("enter")
        await until(pilot, shows(app, "200 messages"))
        for key in ("d", "D", "m", "r", "e", "u"):
            await pilot.press(key)
            assert isinstance(app.screen, MessagesScreen), key
        assert app.told == {READ_ONLY}

    run(path, act)


async def proposed(pilot: Pilot[None], app: Told, key: str, *effects: str) -> None:
    """Press a key; what is proposed says these."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, Confirm))
    assert isinstance(app.screen, Confirm)
    said = "\n".join(app.screen.plan.effects)
    assert all(effect in said for effect in effects), said


@pytest.mark.rule("S-444")
def test_changes_say_first_what_they_do(mount: Path) -> None:
    async def act(pilot: Pilot[None], app: Told) -> None:
        store = app.looking.store
        await until(pilot, shows(app, "orders::billing", "can be changed"))
        await pilot.press("enter")
        await until(pilot, shows(app, "200 messages", '{"total": 0}'))
        await proposed(pilot, app, "d", "1 message of orders::billing", "acknowledged")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, MessagesScreen))
        assert len(store["orders::billing"]) == 200, "it was only proposed"
        await pilot.press("space", "space")
        await proposed(pilot, app, "d", "2 messages of orders::billing")
        await pilot.press("enter")
        await until(pilot, shows(app, "198 messages"))
        await proposed(pilot, app, "u", "come back to orders::billing")
        await pilot.press("y")
        await until(pilot, lambda: len(store["orders::billing"]) > 198)
        await until(pilot, lambda: isinstance(app.screen, MessagesScreen))
        await pilot.press("slash", *"total > 190", "enter")
        await until(pilot, shows(app, "9 messages", '{"total": 191}'))
        await pilot.press("M")
        await pilot.press(*"jobs::jobs", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "the 9 messages of orders::billing where total > 190" in str(app.screen.plan.effects)  # type: ignore[attr-defined]
        await pilot.press("y")
        await until(pilot, lambda: len(store["jobs::jobs"]) == 10)

    run(mount, act)


@pytest.mark.rule("S-444")
def test_a_body_is_edited_and_dead_letters_go_back(mount: Path) -> None:
    async def act(pilot: Pilot[None], app: Told) -> None:
        store = app.looking.store
        await until(pilot, shows(app, "DLQ::DLQ", "can be changed"))
        await pilot.press("slash", *"DLQ", "enter")
        await until(pilot, lambda: app.list.row(0)[0] == "DLQ::DLQ" and len(app.list) == 1)
        await pilot.press("enter")
        await until(pilot, shows(app, "3 messages", "failed 0"))
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Edit))
        app.screen.query_one(TextArea).text = "mended"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: "mended" in [one.body for one in store["DLQ::DLQ"]])
        await until(pilot, lambda: isinstance(app.screen, MessagesScreen))
        await proposed(pilot, app, "R", "3 messages go back to jobs::jobs")
        await pilot.press("y")
        await until(pilot, lambda: len(store["jobs::jobs"]) == 4)
        assert "mended" in [one.body for one in store["jobs::jobs"]]

    run(mount, act)


def test_a_store_that_is_none(tmp_path: Path) -> None:
    app = Top(tmp_path)

    async def main() -> None:
        async with app.run_test() as pilot:
            await until(pilot, lambda: app.failure is not None)

    asyncio.run(main())
    assert "no message store" in str(app.failure) or app.failure is not None
