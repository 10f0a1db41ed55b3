"""`journalfs top` on a terminal: the queues, and beside them dead letters, the disk, limits and refusals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static, TabbedContent, TabPane

from journalfs.clock import SystemClock
from journalfs.errors import JournalfsError
from journalfs.showing import printable
from journalfs.top import actions, figures
from journalfs.top.acting import ActingScreen
from journalfs.top.actions import Chosen
from journalfs.top.listing import SORTS, QueueList
from journalfs.top.looking import Looking
from journalfs.top.messages import MessagesScreen
from journalfs.top.table import Column, Rows

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.worker import Worker

QUEUES: Final = (
    Column("Queue"), *(Column(name, width, right=True) for name, width in (
        ("Messages", 10), ("In/s", 6), ("Out/s", 6), ("Oldest", 8), ("Deliv.", 6), ("Later", 6), ("Paged", 8),
        ("Bodies", 9),
    )), Column("Limit", 12),
)  # fmt: skip
LETTERS: Final = (Column("Queue"), Column("Reason", 24), Column("Messages", 12, right=True))
LIMITS: Final = (
    Column("Address"), Column("In memory", 10, right=True), Column("Limit", 20), Column("What follows", 12),
    Column("Waiting", 8, right=True), Column("Dropped", 8, right=True), Column("Paging", 6),
)  # fmt: skip
REFUSALS: Final = (Column("When (UTC)", 19), Column("Event", 20), Column("What, and why"))
PATH_CHARS: Final = 32
"""Of a path in the first line: its end says most, and what follows has to be seen."""
FILLED: Final = 8
"""Queues that the page on the disk names."""
TABS: Final = {"queues": "Queues", "letters": "Dead letters", "disk": "Disk", "limits": "Limits",
               "refusals": "Refused"}  # fmt: skip


class Overview(ActingScreen):
    """All queues, and what concerns the whole store."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.quit", "Quit"),
        Binding("slash", "filter", "Filter"),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse"),
        Binding("R", "redrive", "Send all back"),
        Binding("u", "undo", "Undo"),
        Binding("escape", "rows", "Rows", show=False),
        *(
            Binding(str(at), f"tab('{name}')", title, show=False)
            for at, (name, title) in enumerate(TABS.items(), 1)
        ),
    ]

    def __init__(self, looking: Looking, queues: QueueList) -> None:
        super().__init__(looking)
        self.list = queues
        self._letters: Sequence[tuple[str, str, int]] = ()
        self._addresses: Sequence[str] = ()
        self._refusals: Sequence[Mapping[str, Any]] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Input(self.list.filter, placeholder="part of a name, or a pattern with * and ?", id="filter")
        with TabbedContent(id="tabs"):
            with TabPane("1 Queues", id="queues"):
                yield Rows(QUEUES, self.list.row, id="queue-rows", empty="no such queue")
            with TabPane("2 Dead letters", id="letters"):
                yield Rows(LETTERS, self._letter, id="letter-rows", empty="no dead letters, nothing expired")
            with TabPane("3 Disk", id="disk"):
                yield Static(id="disk-text")
            with TabPane("4 Limits", id="limits"):
                yield Rows(LIMITS, self._limit, id="limit-rows")
            with TabPane("5 Refused", id="refusals"):
                yield Rows(REFUSALS, self._refusal, id="refusal-rows", empty="nothing was refused")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#queue-rows", Rows).focus()
        self.show()

    def on_screen_resume(self) -> None:
        self.show()

    @property
    def tab(self) -> str:
        """The page that is looked at."""
        return next((one.active for one in self.query(TabbedContent).results()), "queues")

    # -- showing ---------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Show the last look, unless the screen is gone."""
        for head in self.query("#head").results(Static):
            head.update(self._head())
        self.fill("queue-rows", len(self.list))
        self.show_tab()

    def fill(self, name: str, count: int) -> None:
        for rows in self.query(f"#{name}").results(Rows):
            rows.show(count)

    def _head(self) -> Text:
        look = self.looking.last
        if look is None:
            return Text("opening …")
        status = look.status
        path = printable(str(self.looking.path))
        mode = "can be changed" if self.looking.changes else "read only"
        if status.get("liveBroker"):
            mode += ", beside a broker"
        facts = [
            path if len(path) <= PATH_CHARS else "…" + path[1 - PATH_CHARS :],
            mode,
            f"{len(look.queues):,} queues",
            f"{sum(one.messages for one in look.queues):,} messages",
            f"by {self.list.sort}{' (reversed)' if self.list.reverse else ''}",
        ]
        found = Text(" " + "   ".join(facts), style="bold")
        if status.get("damage"):
            found.append(f"   {status['damage']} places damaged: journalfs check", style="red")
        acting = status.get("diskLimit") or status.get("globalLimit")
        if acting:
            found.append(f"   {printable(str(acting))} acts", style="red")
        return found

    def show_tab(self) -> None:
        """Ask for what the tab that is looked at needs."""
        work: Mapping[str, Callable[[], Any]] = {
            "letters": self._look_at_letters, "disk": self._look_at_disk, "limits": self._look_at_limits,
            "refusals": self._look_at_refusals,
        }  # fmt: skip
        if self.tab in work:
            self.begin_unless_busy(partial(self._looked, work[self.tab]), f"tab {self.tab}")

    async def _looked(self, look: Callable[[], Any]) -> None:
        try:
            await look()
        except JournalfsError as error:
            self.tell(error)

    async def _look_at_letters(self) -> None:
        self._letters = await asyncio.to_thread(self.looking.letters)
        self.fill("letter-rows", len(self._letters))

    def _letter(self, index: int) -> tuple[str, ...]:
        name, reason, count = self._letters[index]
        return printable(name), printable(reason), f"{count:,}"

    async def _look_at_disk(self) -> None:
        use = await asyncio.to_thread(self.looking.disk)
        lines = []
        if use.total:
            lines.append(f"{figures.size(use.free)} free of {figures.size(use.total)}")
        lines += ["", *(f"{figures.size(size):>12}  {name}" for name, size in use.parts.items())]
        look = self.looking.last
        fills = sorted(() if look is None else look.queues, key=lambda one: -one.body_bytes)[:FILLED]
        lines += ["", "bodies of live messages in the journal, by queue:"]
        lines += [
            f"{figures.size(one.body_bytes):>12}  {printable(one.name)}" for one in fills if one.body_bytes
        ]
        lines += [
            "",
            "journalfs explain says what keeps each file; journalfs compact frees what nothing needs",
        ]
        for text in self.query("#disk-text").results(Static):
            text.update(Text("\n".join(lines)))

    async def _look_at_limits(self) -> None:
        look = self.looking.last
        acting = {one.address: one.limit is None for one in (() if look is None else look.queues)}
        self._addresses = sorted(acting, key=lambda one: (acting[one], one))
        self.fill("limit-rows", len(self._addresses))

    def _limit(self, index: int) -> tuple[str, ...]:
        name = self._addresses[index]
        found = self.looking.limit(name)
        if found is None:
            return printable(name), "…", "", "", "", "", ""
        return (
            printable(name), figures.size(found.size_bytes), found.limit or "", found.action or "",
            f"{found.blocked_writers:,}", f"{found.dropped_messages:,}", "yes" if found.paging else "",
        )  # fmt: skip

    async def _look_at_refusals(self) -> None:
        self._refusals = await asyncio.to_thread(self.looking.refusals)
        self.fill("refusal-rows", len(self._refusals))

    def _refusal(self, index: int) -> tuple[str, ...]:
        event = self._refusals[index]
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(event["time"]) / 1000))
        return when, str(event["event"]), printable(str(event["message"]))

    def on_rows_seen(self, event: Rows.Seen) -> None:
        asks: Mapping[str | None, Callable[[int, int], None]] = {
            "queue-rows": self._ask_details,
            "limit-rows": self._ask_limits,
        }
        ask = asks.get(event.rows.id)
        if ask is not None:
            self.begin_unless_busy(partial(self._seen, event.rows, ask), f"{event.rows.id}")

    def _ask_details(self, begin: int, end: int) -> None:
        self.looking.ask_details(self.list.names(begin, end))

    def _ask_limits(self, begin: int, end: int) -> None:
        self.looking.ask_limits(self._addresses[begin:end])

    async def _seen(self, rows: Rows, ask: Callable[[int, int], None]) -> None:
        """Ask for the rows that are seen, and for others that came to be seen meanwhile."""
        asked = None
        try:
            while asked != (seen := rows.seen()):
                asked = seen
                await asyncio.to_thread(ask, *seen)
                rows.refresh()
        except JournalfsError as error:
            self.tell(error)

    # -- keys ------------------------------------------------------------------------------------------------

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        for rows in event.pane.query(Rows):
            rows.focus()
        self.show_tab()

    def action_filter(self) -> None:
        self.query_one("#filter", Input).focus()

    def action_rows(self) -> None:
        self.query_one("#queue-rows", Rows).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.list.filter = event.value.strip()
        self.begin(self._listed, "list")

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        self.action_rows()

    def action_sort(self) -> None:
        self.list.sort = SORTS[(SORTS.index(self.list.sort) + 1) % len(SORTS)]
        self.begin(self._listed, "list")

    def action_reverse(self) -> None:
        self.list.reverse = not self.list.reverse
        self.begin(self._listed, "list")

    async def _listed(self) -> None:
        await asyncio.to_thread(self.list.show)
        self.show()

    def _named(self) -> str | None:
        """The queue under the cursor."""
        if self.tab == "letters":
            at = self.query_one("#letter-rows", Rows).cursor
            return self._letters[at][0] if at < len(self._letters) else None
        found = self.list.at(self.query_one("#queue-rows", Rows).cursor)
        return None if found is None else found.name

    def on_rows_entered(self, event: Rows.Entered) -> None:
        name = self._named()
        if event.rows.id in ("queue-rows", "letter-rows") and name is not None:
            self.app.push_screen(MessagesScreen(self.looking, name))

    def action_redrive(self) -> None:
        name = self._named()
        if name is not None:
            queue = self.looking.store[name]
            self.propose(lambda: actions.redrive(Chosen(queue, len(queue))))

    def action_undo(self) -> None:
        self.propose(lambda: actions.undo(self.looking.store))


class Top(App[None]):
    """Opens the store, looks at it as long as it runs, and closes it."""

    TITLE = "journalfs top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head, #title { height: 1; background: $panel; }
    #filter, #selector { height: 1; border: none; padding: 0 1; }
    #said { height: auto; padding: 0 1; }
    #disk-text { padding: 1 2; }
    TabbedContent { height: 1fr; }
    TabPane { padding: 0; }
    """

    def __init__(
        self,
        path: Path,
        *,
        write: bool = False,
        sort: str = SORTS[0],
        wanted: str = "",
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`now_ms`: what the age of messages is reckoned from, in milliseconds since 1970."""
        super().__init__()
        self.looking = Looking(path, write=write, now_s=time.monotonic)
        self.list = QueueList(self.looking, now_ms or SystemClock().now_ms)
        self.list.sort, self.list.filter = sort, wanted
        self.failure: JournalfsError | None = None
        """Why the store could not be looked at at all."""
        self._overview = Overview(self.looking, self.list)
        self._begun: Worker[None] | None = None

    def on_mount(self) -> None:
        self.push_screen(self._overview)
        self._begun = self.run_worker(self._look_on)

    async def _look_on(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._look)
            except JournalfsError as error:
                if self.looking.last is None:
                    self.failure = error
                    self.exit()
                    return
                self._overview.tell(error)
            self._overview.show()
            await asyncio.sleep(self.looking.pause_s())

    def _look(self) -> None:
        self.looking.look()
        self.list.show()

    async def on_unmount(self) -> None:
        await asyncio.to_thread(self.looking.close)
