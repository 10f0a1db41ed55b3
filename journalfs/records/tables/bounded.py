"""Connections to PostgreSQL that wait for no answer longer than they may: one that hangs keeps its lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from sqlalchemy import Engine, event


def bound(engine: Engine, seconds: float) -> None:
    """Have each wait for an answer fail after so many seconds, and close the connection."""

    class Bounded(psycopg.Connection[Any]):
        def cursor(self, name: str = "", *, binary: bool = False, **named: Any) -> Any:
            """Rows that come in pieces are many, and come as the server has them."""
            return super().cursor(name, binary=binary or bool(name), **named)

        def wait(self, gen: Any, *given: Any, **named: Any) -> Any:
            return super().wait(_ended(gen, seconds, self.pgconn.finish), *given, **named)

    def connect(_: object, __: object, place: list[Any], named: dict[str, Any]) -> Any:
        return Bounded.connect(*place, **named)

    event.listen(engine, "do_connect", connect)


def _ended(
    waiting: Generator[Any, Any, Any], seconds: float, close: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """The same, which is told at each interval that nothing came."""
    ends_s = time.monotonic() + seconds
    try:
        wanted = next(waiting)
        while True:
            came = yield wanted
            if not came and time.monotonic() > ends_s:
                close()
                raise psycopg.OperationalError(f"no answer from the server in {seconds:g} s")
            wanted = waiting.send(came)
    except StopIteration as done:
        return done.value
