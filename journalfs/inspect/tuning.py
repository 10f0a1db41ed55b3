"""`journalfs tune`: measures a disk, and says with which settings a journal suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from journalfs.config.journal_settings import journal_settings
from journalfs.inspect.flushing import BLOCK_BYTES, Latency, backend_of, measure, scratch

if TYPE_CHECKING:
    from journalfs.config.layout import StoreLayout

SIZES: Final = (BLOCK_BYTES, 4 * BLOCK_BYTES, 16 * BLOCK_BYTES, 64 * BLOCK_BYTES, 256 * BLOCK_BYTES)
"""From one message to a full buffer."""
FLUSHES: Final = 100
BAR_CHARS: Final = 40
BUFFER_BYTES_DEFAULT: Final = 501_760
TIMEOUT_NS_MIN: Final = 20_000
"""Below that a buffer gathers nothing."""


class Tuned(msgspec.Struct, frozen=True):
    """Settings that suit a disk, and what they follow from."""

    journal_type: str
    why: str | None
    """Why ASYNCIO is not used; None where it is."""
    buffer_timeout_ns: int
    """As a broker's own tool has it: the time of one flush of a block."""
    buffer_size_bytes: int
    flushes_a_second: float
    latencies: list[Latency]

    def settings(self) -> dict[str, object]:
        return {
            "journal-type": self.journal_type,
            "journal-buffer-timeout": self.buffer_timeout_ns,
            "journal-buffer-size": self.buffer_size_bytes,
        }


def tuned(
    layout: StoreLayout, flushes: int = FLUSHES, advance: Callable[[int], None] = lambda _: None
) -> Tuned:
    """Measure the disk of a store's journal. Some MiB are written there, and removed. Raises OSError."""
    with scratch(layout.journal_dir) as folder:
        kind, why = backend_of(folder, "ASYNCIO")
        latencies = []
        for size in SIZES:
            latencies.append(measure(folder, size, flushes))
            advance(1)
    return judged(str(kind), why, latencies, journal_settings(layout.config).file_size_bytes)


def judged(kind: str, why: str | None, latencies: Sequence[Latency], file_size_bytes: int) -> Tuned:
    """Return settings for what was measured. The buffer is the largest that takes at most twice as long as
    one block: more in a flush then costs nearly nothing. It is never less than a broker's own default, and
    never more than a journal file.
    """
    block = latencies[0]
    timeout_ns = max(TIMEOUT_NS_MIN, block.percentile_ns(50))
    cheap = [one.write_bytes for one in latencies if one.percentile_ns(50) <= 2 * block.percentile_ns(50)]
    buffer_bytes = min(file_size_bytes, max(BUFFER_BYTES_DEFAULT, *cheap))
    return Tuned(kind, why, timeout_ns, buffer_bytes, block.a_second, list(latencies))


def curve(latencies: Sequence[Latency]) -> Iterator[str]:
    """Lines that draw how long flushes of each size take: a bar to the 99th of 100, filled to the middle."""
    most_ns = max(one.percentile_ns(99) for one in latencies)
    for one in latencies:
        middle_ns, worst_ns = one.percentile_ns(50), one.percentile_ns(99)
        filled = max(1, round(BAR_CHARS * middle_ns / most_ns))
        rest = max(0, round(BAR_CHARS * worst_ns / most_ns) - filled)
        bar = "#" * filled + "-" * rest
        yield f"{one.write_bytes:>8} B  {middle_ns / 1e6:9.3f} ms  {worst_ns / 1e6:9.3f} ms  {bar}"


def toml(found: Tuned) -> str:
    """The lines for journalfs.toml; they come before its first table."""
    return "".join(
        f"{name} = {value}\n" if isinstance(value, int) else f'{name} = "{value}"\n'
        for name, value in found.settings().items()
    )


def xml(found: Tuned) -> str:
    """The elements for `<core>` of broker.xml."""
    return "".join(f"<{name}>{value}</{name}>\n" for name, value in found.settings().items())
