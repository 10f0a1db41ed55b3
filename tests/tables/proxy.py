"""Between a client and a database: passes bytes on until it is told to lose some."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Self

PIECE_BYTES = 1 << 16
HELD_S_MAX = 10


class Loses(Enum):
    """What is lost when what was asked for comes by, and whether either side hears of it."""

    THE_QUESTION = "question"
    THE_ANSWER = "answer"
    THE_REST = "rest"
    """What comes behind the first piece of the answer."""
    THE_WAY = "way"
    """The client is cut off, and what it asked is on its way until another asks `until`."""


class Proxy:
    """On a port of its own, while it is entered."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.delay_s = 0.0
        """How much later each answer comes."""
        self.until = b""
        self._asked_again = threading.Event()
        self._armed: tuple[bytes, Loses, bool] | None = None
        self._lost, self._never = threading.Event(), threading.Event()
        self._sockets: list[socket.socket] = []

    def lose(self, what: Loses, near: bytes, *, silently: bool) -> None:
        """Once: the first question with these bytes in it, or the answer to that. `silently`: the connection
        stays, and nothing passes it any more.
        """
        self._lost.clear()
        self._armed = near, what, silently

    def has_lost(self, timeout_s: float = 30) -> bool:
        return self._lost.wait(timeout_s)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    client.close()
                    continue
                self._sockets += client, server
                fate: list[tuple[Loses, bool]] = []
                threading.Thread(target=self._ask, args=(client, server, fate), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client, fate), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, fate: list[tuple[Loses, bool]]) -> None:
        with suppress(OSError):
            while piece := client.recv(PIECE_BYTES):
                armed = self._armed
                if armed is not None and not fate and armed[0] in piece:
                    self._armed = None
                    fate.append(armed[1:])
                    if armed[1] is Loses.THE_QUESTION:
                        self._end(client, server, silently=armed[2])
                    elif armed[1] is Loses.THE_WAY:
                        self._lost.set()
                        client.shutdown(socket.SHUT_RDWR)
                        self._asked_again.wait(HELD_S_MAX)
                elif self._lost.is_set() and not fate and self.until and self.until in piece:
                    server.sendall(piece)
                    self._asked_again.set()
                    continue
                if not (fate and fate[0][0] is Loses.THE_QUESTION):
                    server.sendall(piece)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket, fate: list[tuple[Loses, bool]]) -> None:
        begun = False
        with suppress(OSError):
            while piece := server.recv(PIECE_BYTES):
                if not fate or (fate[0][0] is Loses.THE_REST and not begun):
                    begun = bool(fate)
                    self._never.wait(self.delay_s)
                    client.sendall(piece)
                elif fate[0][0] in (Loses.THE_ANSWER, Loses.THE_REST) and not self._lost.is_set():
                    self._end(client, server, silently=fate[0][1])
        with suppress(OSError):
            if not (fate and fate[0][1]):
                client.shutdown(socket.SHUT_RDWR)

    def _end(self, client: socket.socket, server: socket.socket, *, silently: bool) -> None:
        self._lost.set()
        for one in () if silently else (client, server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
