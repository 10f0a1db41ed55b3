"""The screens of a queue: its messages, chosen by a selector as it is typed, and one message in full."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Input, Static

from journalfs.errors import JournalfsError, WrongCall
from journalfs.showing import printable
from journalfs.top import actions, pages, showing
from journalfs.top.acting import ActingScreen
from journalfs.top.actions import Chosen
from journalfs.top.dialogs import Ask, Edit
from journalfs.top.pages import MessagePages
from journalfs.top.table import Column, Rows

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.timer import Timer

    from journalfs.python.message import Message
    from journalfs.python.store import Store
    from journalfs.top.looking import Looking

TYPING_S: Final = 0.25
"""A selector is tried once its writer paused for so long."""
REFRESH_S: Final = 2.0
COLUMNS: Final = tuple(
    Column(name, width, right=right)
    for name, width, right in zip(
        pages.HEADER, (16, 19, 4, 8, 5, 10, 0), (True, False, True, False, True, True, False), strict=True
    )
)


class MessagesScreen(ActingScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("slash", "select", "Selector"),
        Binding("space", "mark", "Mark"),
        Binding("d", "remove(False)", "Remove"),
        Binding("D", "remove(True)", "Remove all", show=False),
        Binding("m", "move(False)", "Move"),
        Binding("M", "move(True)", "Move all", show=False),
        Binding("r", "redrive(False)", "Send back"),
        Binding("R", "redrive(True)", "Send all back", show=False),
        Binding("e", "edit", "Edit"),
        Binding("h", "history", "History"),
        Binding("u", "undo", "Undo"),
    ]

    def __init__(self, looking: Looking, name: str, *, store: Store | None = None) -> None:
        """`store`: another moment of the store, which never changes."""
        super().__init__(looking)
        self.store = looking.store if store is None else store
        self._moment = store is not None
        self.queue_name = name
        self.selector = ""
        self.pages = MessagePages(self.store[name])
        self._wanted = self.pages
        """What is to be shown: other pages as long as those are looked for."""
        self.marked: dict[int, int] = {}
        """Rows that are marked, by message id."""
        self._typing: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Input(placeholder="a selector, as in: total > 100 AND region = 'EU'", id="selector")
        yield Static(id="said")
        yield Rows(COLUMNS, self._row, id="messages", empty="no messages")
        yield Footer()

    def _row(self, index: int) -> tuple[str, ...]:
        return self.pages.row(index)

    def on_mount(self) -> None:
        self.query_one(Rows).focus()
        self._look()
        self.set_interval(REFRESH_S, self._look)

    async def on_unmount(self) -> None:
        for one in (self.pages, self._wanted):
            await asyncio.to_thread(one.close)

    # -- looking ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.begin_unless_busy(partial(self._looked, self._wanted), "look")

    async def _looked(self, wanted: MessagePages) -> None:
        """Count the messages of these pages, have those at hand that are seen, and show them."""
        rows = self.query_one(Rows)
        try:
            await asyncio.to_thread(wanted.look)
            begin, end = rows.seen() if wanted is self.pages else (0, pages.PAGE)
            await asyncio.to_thread(wanted.ask, begin, max(end, begin + 1))
        except JournalfsError as error:
            self.say(Text(printable(str(error)), style="red"))
            return
        if not self.is_attached:
            return
        if wanted is not self.pages:
            before, self.pages = self.pages, wanted
            await asyncio.to_thread(before.close)
            if not self.is_attached:
                return
            rows.cursor = 0
        self.say(Text())
        self.show_title()
        rows.show(wanted.count)

    def say(self, text: Text) -> None:
        """Below the selector."""
        for said in self.query("#said").results(Static):
            said.update(text)

    def show_title(self) -> None:
        mark = f", {len(self.marked)} marked" if self.marked else ""
        moment = " (history)" if self._moment else ""
        text = f" {printable(self.queue_name)}{moment}: {self.pages.count:,} messages{mark}"
        for title in self.query("#title").results(Static):
            title.update(Text(text, style="bold"))

    def on_rows_seen(self, event: Rows.Seen) -> None:
        if not self.pages.has(*event.rows.seen()):
            self.begin_unless_busy(partial(self._seen, event.rows), "page")

    async def _seen(self, rows: Rows) -> None:
        """Ask for the messages that are seen, and for others that came to be seen meanwhile."""
        asked = None
        try:
            while asked != (seen := rows.seen()):
                asked = seen
                await asyncio.to_thread(self.pages.ask, *seen)
                rows.refresh()
        except JournalfsError as error:
            self.tell(error)

    # -- choosing --------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(TYPING_S, partial(self.choose, event.value.strip()))

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        self.query_one(Rows).focus()

    def choose(self, selector: str) -> None:
        """Show what a selector leaves; what is wrong with it stands below it."""
        queue = self.store[self.queue_name]
        try:
            chosen = queue.where(selector) if selector else queue
        except JournalfsError as error:
            self.say(Text(printable(str(error)), style="red"))
            return
        self.selector = selector
        self.marked.clear()
        self.query_one(Rows).marked = ()
        self.say(Text("looking …", style="dim"))
        before, self._wanted = self._wanted, MessagePages(chosen)
        if before is not self.pages:
            self.begin(partial(asyncio.to_thread, before.close), f"close {id(before)}")
        self.begin(partial(self._looked, self._wanted), "look")

    def action_select(self) -> None:
        self.query_one("#selector", Input).focus()

    def action_mark(self) -> None:
        rows = self.query_one(Rows)
        found = self.pages.at(rows.cursor)
        number = None if found is None or found.message is None else found.message.id
        if number is not None:
            if self.marked.pop(number, None) is None:
                self.marked[number] = rows.cursor
            rows.marked = set(self.marked.values())
            self.show_title()
            rows.action_step(1)

    def action_back(self) -> None:
        self.app.pop_screen()

    def on_rows_entered(self, event: Rows.Entered) -> None:
        self.begin(partial(self._entered, event.index), "enter")

    async def _entered(self, index: int) -> None:
        try:
            message = await asyncio.to_thread(self._whole, index)
        except JournalfsError as error:
            self.tell(error)
            return
        self.app.push_screen(MessageScreen(self.looking, self.queue_name, message))

    def _whole(self, index: int) -> Message:
        found = self.pages.at(index)
        if found is None:
            raise WrongCall("this message is not at hand yet; wait a moment")
        return self.pages.whole(found)

    def action_history(self) -> None:
        self.begin(self._history, "enter")

    async def _history(self) -> None:
        """What was sent to the queue, consumed or not."""
        try:
            past = await asyncio.to_thread(self.store.history)
            await asyncio.to_thread(past[self.queue_name].queues)
        except JournalfsError as error:
            self.tell(error)
            return
        self.app.push_screen(MessagesScreen(self.looking, self.queue_name, store=past))

    # -- changing --------------------------------------------------------------------------------------------

    def chosen(self, whole: bool) -> Chosen:
        """The marked messages, or the one under the cursor; `whole`: all that the selector leaves."""
        queue = self.looking.store[self.queue_name]
        if whole:
            chosen = queue.where(self.selector) if self.selector else queue
            return Chosen(chosen, self.pages.count, selector=self.selector or None)
        if self.marked:
            return Chosen(queue, len(self.marked), ids=list(self.marked))
        number = self._whole(self.query_one(Rows).cursor).id
        if number is None:
            raise WrongCall("this message has no id, and cannot be chosen by it")
        return Chosen(queue, 1, ids=[number])

    def action_remove(self, whole: bool) -> None:
        self.propose(lambda: actions.remove(self.chosen(whole)))

    def action_redrive(self, whole: bool) -> None:
        self.propose(lambda: actions.redrive(self.chosen(whole)))

    def action_undo(self) -> None:
        self.propose(lambda: actions.undo(self.looking.store))

    def action_move(self, whole: bool) -> None:
        def named(target: str | None) -> None:
            if target is not None:
                self.propose(lambda: actions.move(self.chosen(whole), self.looking.store, target))

        if not self.refuses():
            self.app.push_screen(Ask("Move to which queue?", "address::queue"), named)

    def action_edit(self) -> None:
        if not self.refuses():
            self.begin(partial(self._edited, self.query_one(Rows).cursor), "edit")

    async def _edited(self, index: int) -> None:
        """Let somebody edit the body of a message, and propose what came of it."""
        try:
            message = await asyncio.to_thread(self._whole, index)
            before = actions.edited_text(message)
        except JournalfsError as error:
            self.tell(error)
            return
        text = await self.app.push_screen_wait(Edit(f"Body of message {message.id}", before))
        if text is not None and text != before:
            queue = self.looking.store[self.queue_name]
            self.propose(partial(actions.edit, queue, message, text))

    def done(self) -> None:
        self.marked.clear()
        self.query_one(Rows).marked = ()
        self._look()


class MessageScreen(ActingScreen):
    """One message: headers, properties, history and body."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("x", "hex", "Hex"),
    ]
    DEFAULT_CSS = "MessageScreen Static { padding: 0 1; }"

    def __init__(self, looking: Looking, queue_name: str, message: Message) -> None:
        super().__init__(looking)
        self._queue_name = queue_name
        self._message = message
        self._as_hex = False

    def compose(self) -> ComposeResult:
        title = f"{printable(self._queue_name)}, message {self._message.id}"
        with VerticalScroll():
            yield Static(Text(title, style="bold"), id="title")
            yield Static(self._headers(), id="headers")
            yield Static(Text("History", style="bold"))
            yield Static(Text("\n".join(showing.history_lines(self._message))), id="history")
            yield Static(Text("Body", style="bold"))
            yield Static(self._body(), id="body")
        yield Footer()

    def _headers(self) -> Text:
        rows = showing.header_rows(self._message)
        width = max((len(name) for name, _ in rows), default=0)
        found = Text()
        for name, value in rows:
            found.append(f"{name:<{width}}  ", style="dim").append(f"{value}\n")
        return found

    def _body(self) -> Text:
        return Text("\n".join(showing.body_lines(self._message, as_hex=self._as_hex)))

    def action_hex(self) -> None:
        self._as_hex = not self._as_hex
        self.query_one("#body", Static).update(self._body())

    def action_back(self) -> None:
        self.app.pop_screen()
