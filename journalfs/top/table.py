"""A table whose rows are made when they are seen, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

MIN_WIDTH: Final = 24
"""Of the column that has what the others leave."""
GAP: Final = 2


class Column:
    """`width` 0: it has what the others leave."""

    def __init__(self, name: str, width: int = 0, *, right: bool = False) -> None:
        self.name = name
        self.width = width
        self.right = right

    def cell(self, text: str, width: int) -> str:
        if cell_len(text) > width:
            return set_cell_size(text, width - 1) + "…"
        return " " * (width - cell_len(text)) + text if self.right else set_cell_size(text, width)


class Rows(ScrollView, can_focus=True):
    """The first line on the screen is the header; the cursor is on one row."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--header", "rows--cursor", "rows--marked"}
    DEFAULT_CSS = """
    Rows { height: 1fr; background: $surface; color: $foreground; }
    Rows > .rows--header { background: $panel; color: $accent; text-style: bold; }
    Rows > .rows--cursor { background: $primary; color: $text; }
    Rows > .rows--marked { color: $warning; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Up", show=False),
        Binding("down,j", "step(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "first", "First", show=False),
        Binding("end,G", "last", "Last", show=False),
        Binding("enter", "enter", "Open"),
    ]
    cursor: reactive[int] = reactive(0)

    class Seen(Message):
        """Other rows are on the screen."""

        def __init__(self, rows: Rows) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> Rows:
            return self.rows

    class Entered(Message):
        """Somebody wants to see more of a row."""

        def __init__(self, rows: Rows, index: int) -> None:
            super().__init__()
            self.rows = rows
            self.index = index

        @property
        def control(self) -> Rows:
            return self.rows

    def __init__(
        self, columns: Sequence[Column], row: Callable[[int], Sequence[str]], *, id: str, empty: str = ""
    ) -> None:
        """`row` is asked for a row when it is drawn, and must not wait. `empty`: said where there is none."""
        super().__init__(id=id)
        self._columns = columns
        self._row = row
        self._empty = empty
        self.count = 0
        self.marked: Collection[int] = ()
        """Rows that stand out."""

    # -- what is there ---------------------------------------------------------------------------------------

    def show(self, count: int) -> None:
        """There are so many rows, and any of them may be another."""
        self.count = count
        self.virtual_size = Size(0, count + 1)
        self.cursor = max(0, min(self.cursor, count - 1))
        self.refresh()
        self.post_message(self.Seen(self))

    def seen(self) -> tuple[int, int]:
        """The rows [begin, end) that are on the screen."""
        begin = int(self.scroll_offset.y)
        return begin, min(self.count, begin + self._room())

    def _room(self) -> int:
        return max(1, self.size.height - 1)

    # -- drawing ---------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self._strip([one.name for one in self._columns], "rows--header", width)
        index = int(self.scroll_offset.y) + y - 1
        if index >= self.count:
            text = self._empty if y == 1 else ""
            return Strip([Segment(set_cell_size(f" {text}", width), self.rich_style)], width)
        kind = "rows--cursor" if index == self.cursor else "rows--marked" if index in self.marked else None
        return self._strip(self._row(index), kind, width)

    def _strip(self, cells: Sequence[str], kind: str | None, width: int) -> Strip:
        style: Style = self.rich_style if kind is None else self.get_component_rich_style(kind)
        widths = self._widths(width)
        texts = [one.cell(text, size) for one, text, size in zip(self._columns, cells, widths, strict=True)]
        return Strip([Segment(set_cell_size(" " + (" " * GAP).join(texts), width), style)], width)

    def _widths(self, width: int) -> list[int]:
        taken = sum(one.width for one in self._columns) + GAP * (len(self._columns) - 1) + 1
        return [one.width or max(MIN_WIDTH, width - taken) for one in self._columns]

    # -- moving ----------------------------------------------------------------------------------------------

    def watch_cursor(self) -> None:
        begin, room = int(self.scroll_offset.y), self._room()
        if self.cursor < begin:
            self._scroll(self.cursor)
        elif self.cursor >= begin + room:
            self._scroll(self.cursor - room + 1)
        self.refresh()

    def _scroll(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, immediate=True, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.refresh()
        self.post_message(self.Seen(self))

    def on_resize(self, _event: Resize) -> None:
        self.refresh()
        self.post_message(self.Seen(self))

    def on_click(self, event: Click) -> None:
        index = int(self.scroll_offset.y) + event.y - 1
        if event.y and index < self.count:
            entered = index == self.cursor
            self.cursor = index
            if entered:
                self.action_enter()

    def action_step(self, rows: int) -> None:
        self.cursor = max(0, min(self.cursor + rows, self.count - 1))

    def action_page(self, pages: int) -> None:
        self.action_step(pages * self._room())

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = max(0, self.count - 1)

    def action_enter(self) -> None:
        if self.count:
            self.post_message(self.Entered(self, self.cursor))
