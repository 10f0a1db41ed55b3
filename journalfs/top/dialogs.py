"""What is asked before something is done, and for what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from journalfs.top.actions import Plan

_BOX = """
{name} {{ align: center middle; }}
{name} > Vertical {{ width: 80%; max-width: 110; height: auto; max-height: 90%; padding: 1 2;
    background: $panel; border: thick $primary; }}
{name} TextArea {{ height: 16; }}
{name} .hint {{ color: $text-muted; margin-top: 1; }}
"""


class Confirm(ModalScreen[bool]):
    """Says what is about to be done. True: do it."""

    DEFAULT_CSS = _BOX.format(name="Confirm")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Do it"),
        Binding("n,escape", "answer(False)", "Leave it"),
    ]

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self.plan.title, style="bold"))
            yield Static(Text("\n".join(self.plan.effects)), id="effects")
            yield Static(Text("Enter or y: do it   Esc or n: leave it"), classes="hint")

    def action_answer(self, does: bool) -> None:
        self.dismiss(does)


class Ask(ModalScreen["str | None"]):
    """Asks for a line. None: never mind."""

    DEFAULT_CSS = _BOX.format(name="Ask")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave it")]

    def __init__(self, title: str, placeholder: str) -> None:
        super().__init__()
        self._title = title
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._title, style="bold"))
            yield Input(placeholder=self._placeholder, id="asked")
            yield Static(Text("Enter: go on   Esc: leave it"), classes="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        self.dismiss(None)


class Edit(ModalScreen["str | None"]):
    """Edits a text. None: never mind."""

    DEFAULT_CSS = _BOX.format(name="Edit")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "done", "Go on", priority=True),
        Binding("escape", "leave", "Leave it", priority=True),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._title, style="bold"))
            yield TextArea(self._text, id="edited", soft_wrap=True, tab_behavior="indent")
            yield Static(Text("Ctrl+S: go on, nothing is changed yet   Esc: leave it"), classes="hint")

    def action_done(self) -> None:
        self.dismiss(self.query_one("#edited", TextArea).text)

    def action_leave(self) -> None:
        self.dismiss(None)
