"""Connections to PostgreSQL that wait for no answer longer than they may (one that hangs keeps its lines),
and copying what is much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, Final

import psycopg
from psycopg import generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.waiting import Wait
from sqlalchemy import Connection, Select
from sqlalchemy.exc import OperationalError

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_HEADER_BYTES: Final = len(_SIGNATURE) + 8
_TRAILER: Final = b"\xff\xff"
"""Around the rows of what is copied in binary."""


def bounded(seconds: float) -> Callable[..., Any]:
    """Connects so that each wait for an answer fails where nothing comes for so long, and closes the
    connection.
    """

    class Bounded(psycopg.Connection[Any]):
        def cursor(self, name: str = "", *, binary: bool = False, **named: Any) -> Any:
            """Rows that come in pieces are many, and come as the server has them."""
            return super().cursor(name, binary=binary or bool(name), **named)

        def wait(self, gen: Any, *given: Any, **named: Any) -> Any:
            return super().wait(bounded_wait(gen, seconds, self.pgconn.finish), *given, **named)

    return Bounded.connect


def bounded_wait(
    waiting: Generator[Any, Any, Any], seconds: float, close: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """The same, which is told at each interval that nothing came."""
    ends_s = time.monotonic() + seconds
    try:
        wanted = next(waiting)
        while True:
            came = yield wanted
            if came:  # what is long may take longer
                ends_s = time.monotonic() + seconds
            elif time.monotonic() > ends_s:
                close()
                raise psycopg.OperationalError(f"no answer from the server in {seconds:g} s")
            wanted = waiting.send(came)
    except StopIteration as done:
        return done.value


def copied(
    connection: Connection, asked: Select[Any], block_bytes: int
) -> Generator[tuple[bytes, int], None, None]:
    """What is asked for as `COPY` gives it in binary, in blocks of whole rows, and how many rows each has.
    `close` it. Raises as SQLAlchemy does.
    """
    text = str(asked.compile(connection.engine, compile_kwargs={"literal_binds": True})).replace("%%", "%")
    statement = f"COPY ({text}) TO STDOUT (FORMAT binary)"
    driver: Any = connection.connection.driver_connection
    ended = False
    try:
        driver.pgconn.send_query(statement.encode(driver.info.encoding))
        (begun,) = driver.wait(generators.execute(driver.pgconn))
        if begun.status != ExecStatus.COPY_OUT:
            raise error_from_result(begun)
        while not ended:
            rows, ended = driver.wait(_block(driver.pgconn, block_bytes))
            if rows:
                yield b"".join(rows), len(rows)
    except psycopg.Error as error:
        raise OperationalError(statement, None, error) from error
    finally:
        if not ended:
            connection.invalidate()


def _block(server: Any, block_bytes: int) -> Generator[Any, Any, tuple[list[memoryview], bool]]:
    """Rows of so many bytes or more, and whether these are the last."""
    rows: list[memoryview] = []
    size_bytes, length = 0, 1
    while size_bytes < block_bytes and length >= 0:
        length, row = server.get_copy_data(1)
        if length > 0:
            rows.append(row)
            size_bytes += length
        elif length == 0:
            while not (yield Wait.R):
                continue
            server.consume_input()
    if rows and bytes(rows[0][: len(_SIGNATURE)]) == _SIGNATURE:
        rows[0] = rows[0][_HEADER_BYTES:]
    if rows and bytes(rows[-1]) == _TRAILER:
        rows.pop()
    if length < 0:
        for result in (yield from generators.fetch_many(server)):
            if result.status != ExecStatus.COMMAND_OK:
                raise error_from_result(result)
    return rows, length < 0
