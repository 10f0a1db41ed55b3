"""One connection to a broker: proton's engine, which does no input or output itself, over a stream of trio.

The engine turns frames into events and back; this passes the bytes on, and wakes whoever waits for something
that an event may have brought. What is sent over it is said in `links`.
"""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import trio

from journalfs.errors import DependencyMissing
from journalfs.through.broker_url import BrokerUrl
from journalfs.through.errors import BrokerAway, BrokerRefused

try:
    from proton import Collector, Connection, Endpoint, Transport, TransportException
except ImportError:
    raise DependencyMissing(
        "speaking to a broker", package="python-qpid-proton", install="pip install 'journalfs[through]'"
    ) from None

CONNECT_S_MAX: Final = 30.0
"""A broker that is there answers at once; one behind a firewall that drops packets never does."""
IDLE_S_MAX: Final = 60.0
"""After so long without a byte from the broker the connection counts as lost."""
GOODBYE_S_MAX: Final = 1.0
READ_BYTES: Final = 1 << 16
UNAUTHORIZED: Final = frozenset({"amqp:unauthorized-access", "amqp:not-allowed"})


class Wire:
    """An open connection. Made by `connect`."""

    def __init__(self, url: BrokerUrl, stream: trio.abc.Stream) -> None:
        self.url = url
        self._stream = stream
        self._changed = trio.lowlevel.ParkingLot()
        self._to_write = trio.Event()
        self._failure: BrokerAway | BrokerRefused | None = None
        self._collector = Collector()
        self.connection = Connection()
        self.connection.container = f"journalfs-{uuid.uuid4()}"
        self.connection.hostname = url.host
        if url.user is not None:
            self.connection.user, self.connection.password = url.user, url.password or ""
        self.connection.collect(self._collector)
        self._transport = Transport()
        self._transport.idle_timeout = IDLE_S_MAX
        # The password goes over the wire as it is; who did not ask for TLS has a wire that he trusts.
        sasl = self._transport.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("ANONYMOUS" if url.user is None else "PLAIN")
        self._transport.bind(self.connection)
        self.session = self.connection.session()
        self.connection.open()
        self.session.open()

    # -- waiting ---------------------------------------------------------------------------------------------

    async def until(self, come: Callable[[], bool]) -> None:
        """Wait until something is so. Raises `BrokerAway` or `BrokerRefused` once the connection is lost."""
        self.flush()
        while not come():
            self.see_alive()
            await self._changed.park()
        self.see_alive()

    def see_alive(self) -> None:
        """Raise what the connection was lost by, if it was."""
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))

    def flush(self) -> None:
        """Have what the engine has to say written."""
        self._to_write.set()

    def lost(self, failure: BrokerAway | BrokerRefused) -> None:
        if self._failure is None:
            self._failure = failure
        self._changed.unpark_all()
        self._to_write.set()

    # -- bytes -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read and write until the connection ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            nursery.start_soon(self._tick)
            await self._read()
            nursery.cancel_scope.cancel()

    async def close(self) -> None:
        """Tell the broker, which gives to others what was not acknowledged, and let go of the stream."""
        with trio.CancelScope(shield=True):
            with trio.move_on_after(GOODBYE_S_MAX), suppress(BrokerAway, BrokerRefused):
                self.connection.close()
                await self.until(lambda: not self.is_open)
            await trio.aclose_forcefully(self._stream)
        self.lost(BrokerAway(f"{self.url}: the connection was closed"))

    async def _read(self) -> None:
        reason = "it closed the connection"
        try:
            while data := await self._stream.receive_some(READ_BYTES):
                self._take(bytes(data))
        except (trio.BrokenResourceError, ssl.SSLError, OSError) as error:
            reason = str(error.__cause__ or error)
        except trio.ClosedResourceError:
            return
        self.lost(BrokerAway(f"{self.url}: the broker is gone: {reason}"))

    def _take(self, data: bytes) -> None:
        with suppress(TransportException):  # what is wrong stands in the transport's condition
            while data and (room := self._transport.capacity()) > 0:
                self._transport.push(data[:room])
                self._dispatch()
                data = data[room:]
        self._dispatch()
        self.flush()

    async def _write(self) -> None:
        while True:
            await self._to_write.wait()
            self._to_write = trio.Event()
            while (pending := self._transport.pending()) > 0:
                piece = self._transport.peek(pending) or b""
                try:
                    await self._stream.send_all(piece)
                except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, OSError):
                    return  # the reader sees it as well, and says why
                self._transport.pop(len(piece))
            self._dispatch()

    async def _tick(self) -> None:
        """Tell the engine the time: it says that we live, and notices that the broker does not."""
        while True:
            now = trio.current_time()
            due = self._transport.tick(now)
            self._dispatch()
            self.flush()
            await trio.sleep(min(max(due - now, 0.1), IDLE_S_MAX / 4) if due else IDLE_S_MAX / 4)

    def _dispatch(self) -> None:
        """Look at what happened. Whoever waits looks at links and deliveries himself."""
        while (event := self._collector.peek()) is not None:
            match event.type.name:
                case "PN_CONNECTION_REMOTE_CLOSE":
                    self._closed(self.connection.remote_condition)
                case "PN_SESSION_REMOTE_CLOSE":
                    self._closed(self.session.remote_condition)
                case "PN_TRANSPORT_ERROR":
                    self._closed(self._transport.condition)
            self._collector.pop()
        self._changed.unpark_all()

    def _closed(self, condition: Any) -> None:
        name, said = (
            (condition.name, condition.description) if condition else ("", "it closed the connection")
        )
        if name in UNAUTHORIZED:
            who = "nobody" if self.url.user is None else self.url.user
            self.lost(BrokerRefused(f"{self.url}: the broker refuses {who}: {said}"))
        else:
            self.lost(BrokerAway(f"{self.url}: the broker is gone: {said or name}"))

    @property
    def is_lost(self) -> bool:
        return self._failure is not None

    @property
    def is_open(self) -> bool:
        return bool(self.connection.state & Endpoint.REMOTE_ACTIVE)


async def connect(url: BrokerUrl, nursery: trio.Nursery, *, context: ssl.SSLContext | None = None) -> Wire:
    """A connection that the broker has accepted, which lives in the nursery. Raises `BrokerAway` and
    `BrokerRefused`.

    `context` decides whom `amqps` believes; by default whom the system believes.
    """
    wire = Wire(url, await _stream(url, context))
    nursery.start_soon(wire.run)
    try:
        with trio.fail_after(CONNECT_S_MAX):
            await wire.until(lambda: wire.is_open)
    except trio.TooSlowError:
        await wire.close()
        raise BrokerAway(f"{url}: no AMQP 1.0 was answered within {CONNECT_S_MAX:.0f} s") from None
    except BaseException:
        await wire.close()
        raise
    return wire


async def _stream(url: BrokerUrl, context: ssl.SSLContext | None) -> trio.abc.Stream:
    try:
        with trio.fail_after(CONNECT_S_MAX):
            plain = await trio.open_tcp_stream(url.host, url.port)
            if not url.encrypted:
                return plain
            secured = trio.SSLStream(
                plain,
                context or ssl.create_default_context(),
                server_hostname=url.host,
                https_compatible=True,
            )
            await secured.do_handshake()
            return secured
    except trio.TooSlowError:
        reason = f"no answer within {CONNECT_S_MAX:.0f} s"
    except (OSError, trio.BrokenResourceError, ssl.SSLError) as error:
        reason = str(error.__cause__ or error)
    raise BrokerAway(f"{url}: cannot connect: {reason}; is it an AMQP acceptor's address and port?")
