"""Judging messages by the steps of a selector, in C, straight from mapped files."""

from __future__ import annotations

from array import array
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import u32_pointer
from journalfs.engine.lines import uninitialized
from journalfs.engine.status import check
from journalfs.steps import Program

NO: Final[int] = lib.JFS_VERDICT_NO
YES: Final[int] = lib.JFS_VERDICT_YES
ASK: Final[int] = lib.JFS_VERDICT_ASK
"""The core does not know: decode the line."""


class Stop:
    """Ends judging from another thread."""

    __slots__ = ("pointer",)

    def __init__(self) -> None:
        self.pointer = ffi.new("int32_t *")

    def set(self) -> None:
        self.pointer[0] = 1


class Judge:
    """A program in the core's form. Any number of threads may use it."""

    __slots__ = ("_keep", "_program")

    def __init__(self, program: Program) -> None:
        names, constants = len(program.names), len(program.constants)
        self._keep: list[Any] = []
        made = self._program = ffi.new("jfs_select_program *")
        made.names = self._array("jfs_select_name[]", names)
        for place, name in enumerate(program.names):
            one = made.names[place]
            one.utf16, one.utf16_bytes = self._text(name.text.encode("utf-16-le"))
            one.utf8, one.utf8_bytes = self._text(name.text.encode())
            one.kind = getattr(lib, f"JFS_N_{name.kind}")
        made.constants = self._array("jfs_select_value[]", constants)
        for place, constant in enumerate(program.constants):
            self._fill(made.constants[place], constant)
        made.characters = self._array("int32_t[]", program.characters)
        made.steps = self._array("jfs_select_step[]", len(program.steps))
        first = {"name": 0, "constant": names, "temporary": names + constants}
        for place, step in enumerate(program.steps):
            one = made.steps[place]
            one.code = getattr(lib, f"JFS_S_{step.code}")
            one.target, one.a, one.b = (first[kind] + at for kind, at in (step.target, step.a, step.b))
            if step.code in ("LIKE", "IN"):
                one.b = step.first + (names if step.code == "IN" else 0)
            one.count, one.jump, one.to = step.count, step.jump, step.to or place + 1
        made.name_count, made.constant_count = names, constants
        made.character_count, made.step_count = len(program.characters), len(program.steps)
        made.result = names + constants
        made.register_count = made.result + program.temporaries

    def _array(self, kind: str, content: object) -> Any:
        array = ffi.new(kind, content)
        self._keep.append(array)
        return array

    def _text(self, content: bytes) -> tuple[Any, int]:
        """Bytes that C may point to; never NULL."""
        return self._array("uint8_t[]", content + b"\0"), len(content)

    def _fill(self, value: Any, constant: object) -> None:
        if constant is None:
            value.type = lib.JFS_V_NULL
        elif isinstance(constant, bool):
            value.type, value.number = lib.JFS_V_BOOLEAN, constant
        elif isinstance(constant, str):
            value.type = lib.JFS_V_STRING
            value.utf16, value.utf16_bytes = self._text(constant.encode("utf-16-le"))
            value.utf8, value.utf8_bytes = self._text(constant.encode())
        elif isinstance(constant, float):
            value.type, value.real = lib.JFS_V_DOUBLE, constant
        else:
            assert isinstance(constant, int)
            value.type = lib.JFS_V_INT if type(constant) is int else lib.JFS_V_LONG
            value.number = constant

    def judge(
        self, lines: Any, count: int, verdicts: Any, *, budget_ns: int = 0, stop: Stop | None = None
    ) -> int:
        """Judge the first of `count` messages of a `jfs_line[]` into a `uint8_t[]`: as many as there is time
        for, 0: no limit, and until `stop` is set. Returns how many. Large bodies need not be there. Raises
        FileTorn.
        """
        judged = ffi.new("uint32_t *")
        until = ffi.NULL if stop is None else stop.pointer
        status = lib.jfs_select_judge(self._program, lines, count, budget_ns, until, verdicts, judged)
        check(status, "judging messages")
        return int(judged[0])


def verdict_room(count: int) -> Any:
    """A `uint8_t[]` for as many verdicts."""
    return uninitialized("uint8_t[]", count)


def chosen(said: Any, values: array[int], which: int) -> array[int]:
    """Return those of `values`, an array('I'), whose verdict in `said` is `which`."""
    out = array("I", bytes(4 * len(values)))
    if values:
        count = lib.jfs_verdicts_choose(said, u32_pointer(values), len(values), which, u32_pointer(out))
        del out[count:]
    return out


def _i64(values: array[int]) -> Any:
    return ffi.from_buffer("int64_t[]", values)


class Verdicts:
    """The verdicts of a selector, by message id: about three bits each for ids near each other."""

    __slots__ = ("_pointer",)

    def __init__(self) -> None:
        out = ffi.new("jfs_verdicts **")
        check(lib.jfs_verdicts_new(out), "preparing to judge")
        self._pointer = ffi.gc(out[0], lib.jfs_verdicts_free)

    def note(self, ids: array[int], said: Any) -> None:
        """Take over YES and NO from a `uint8_t[]` of one verdict for each of an array('q')."""
        if ids:
            check(
                lib.jfs_verdicts_note(self._pointer, ffi.from_buffer("int64_t[]", ids), said, len(ids)),
                "judging",
            )

    def of(self, ids: array[int], said: Any) -> int:
        """Fill in what is known: YES, NO, or ASK. Returns how often it is ASK."""
        if not ids:
            return 0
        return int(lib.jfs_verdicts_of(self._pointer, _i64(ids), len(ids), said))

    @property
    def size_bytes(self) -> int:
        return int(lib.jfs_verdicts_bytes(self._pointer))

    def __len__(self) -> int:
        return int(lib.jfs_verdicts_count(self._pointer))
