"""`journalfs health`: whether a queue is as it should be, for monitoring."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from journalfs.cli.common import GivenPath, name_in_warnings, say
from journalfs.clock import SystemClock
from journalfs.errors import JournalfsError

OK, CRITICAL, UNKNOWN = 0, 2, 3
"""Exit codes of monitoring plugins."""


@click.command(epilog="Example: journalfs health /mnt orders::billing --max 1000 --oldest 10m")
@click.argument("store", metavar="STORE|MNT|URL", type=GivenPath())
@click.argument("target", metavar="ADDRESS[::QUEUE]")
@click.option(
    "--max", "most", metavar="N", type=click.IntRange(min=0), help="Critical with more messages than that."
)
@click.option(
    "--oldest", metavar="TIME", help="Critical where the oldest message is older: 30s, 10m, 1h, 2d."
)
def health(*, store: Path, target: str, most: int | None, oldest: str | None) -> None:
    """Say in one line whether a queue, or each queue of an address, keeps within limits.

    Exit codes are those of monitoring plugins (Nagios, Icinga): 0 OK, 2 CRITICAL, 3 UNKNOWN: the store could
    not be read. What follows the bar is performance data.
    """
    name_in_warnings()
    try:
        code, line = _looked(store, target, most, oldest)
    except (JournalfsError, OSError) as error:
        code, line = UNKNOWN, f"UNKNOWN - {error}"
    say(line)
    sys.exit(code)


def _looked(store: Path, target: str, most: int | None, oldest: str | None) -> tuple[int, str]:
    from journalfs.python.outgoing import duration_s  # noqa: PLC0415 - takes longer than the help text
    from journalfs.python.store import open_store  # noqa: PLC0415 - as above

    oldest_s = None if oldest is None else duration_s("--oldest", oldest)
    said, data, code, now_ms = [], [], OK, SystemClock().now_ms()
    with open_store(store) as found:
        for queue in found[target].queues():
            facts = queue.status()
            messages, sent_ms = int(facts["messageCount"]), facts["oldestTimestamp"]
            age_s = max(0, now_ms - int(sent_ms)) // 1000 if sent_ms else 0
            too_many = most is not None and messages > most
            too_old = oldest_s is not None and age_s > oldest_s
            code = CRITICAL if too_many or too_old else code
            said.append(
                f"{queue.name} has {messages} messages{f' (at most {most})' * too_many}, "
                f"the oldest is {age_s} s old{f' (at most {oldest})' * too_old}"
            )
            data.append(f"'{queue.name} messages'={messages};;{'' if most is None else most};0")
            data.append(f"'{queue.name} oldest'={age_s}s;;{'' if oldest_s is None else f'{oldest_s:g}'};0")
    word = "OK" if code == OK else "CRITICAL"
    return code, f"{word} - {'; '.join(said) or f'{target} has no queue'} | {' '.join(data)}"
