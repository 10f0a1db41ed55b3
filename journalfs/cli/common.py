"""What the commands that read a store share: naming its parts, opening it, and writing much quickly."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from journalfs.config.database import kept_text
from journalfs.config.files import CONFIG_VARIABLE, FORCE_VARIABLE
from journalfs.config.older import KINDS
from journalfs.errors import EXIT_OK, WrongCall
from journalfs.process_start import refuse_relative
from journalfs.windows import windows

if TYPE_CHECKING:
    from journalfs.api import Address, ByteSource, Queue, Store, View, VirtualDirectory, VirtualFile

SEPARATOR = "::"
"""Between address and queue, as the broker writes fully qualified queue names."""

NAMES_SHOWN_MAX = 5
"""Queues that a message names: a line on a terminal has room for about this many."""

EXIT_READER_LEFT = 128 + 13
"""As if SIGPIPE had ended the command, which is what shells expect."""

C = TypeVar("C", bound=Callable[..., object])


class GivenPath(click.ParamType[Path]):
    """A path as somebody typed it. An empty one is a variable that was not set, and not this directory."""

    name = "path"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        text = os.fsdecode(os.fspath(cast("str", value)))
        if not text or "\0" in text:
            self.fail("an empty path" if not text else "no path can have a NUL in it", param, ctx)
        if (refusal := refuse_relative(text)) is not None:
            self.fail(refusal, param, ctx)
        return Path(kept_text(text))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class GivenPlace(click.ParamType[str]):
    """A path or a URL, with the same care."""

    name = "place"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        GivenPath().convert(value, param, ctx)
        return os.fsdecode(os.fspath(cast("str", value)))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return GivenPath().shell_complete(ctx, param, incomplete)


def _choose_config(ctx: click.Context, _param: click.Parameter, value: Path | None) -> None:
    """For this command and what it starts."""
    if value is not None:
        before = os.environ.get(CONFIG_VARIABLE)
        os.environ[CONFIG_VARIABLE] = os.path.abspath(value)
        # The context calls the last one first: one call, else what was there before is taken away again.
        ctx.call_on_close(lambda: _set_config(before))


def _set_config(value: str | None) -> None:
    os.environ.pop(CONFIG_VARIABLE, None)
    if value is not None:
        os.environ[CONFIG_VARIABLE] = value


def store_argument(command: C) -> C:
    """The STORE argument, wherever a command takes one, and `--config`, which says what belongs to it."""
    return click.argument("store", type=GivenPath(), callback=_adopted)(config_option(command))


def config_option(command: C) -> C:
    """Add `--config` to a command."""
    return click.option(
        "--config",
        metavar="FILE",
        type=GivenPath(),
        expose_value=False,
        callback=_choose_config,
        help="The broker's configuration (broker.xml), where STORE does not lead to it.",
    )(command)


def _force(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """For this command and what it starts."""
    if value:
        os.environ[FORCE_VARIABLE] = "1"
        ctx.call_on_close(lambda: os.environ.pop(FORCE_VARIABLE, None))


def through_option(command: C) -> C:
    """Add `--through` to a command that changes a store: its running broker then makes the change."""
    return click.option(
        "--through",
        metavar="URL",
        help="Have the running broker at amqp://USER@HOST:PORT change STORE, instead of writing its files.",
    )(command)


def force_option(command: C) -> C:
    """Add `--force` to a command that writes to a store."""
    return click.option(
        "--force",
        is_flag=True,
        expose_value=False,
        callback=_force,
        help="Write to a database although others are connected to it as a broker is, or to files that have "
        "other names outside of the store.",
    )(command)


def _adopted(_ctx: click.Context, _param: click.Parameter, store: Path) -> Path:
    act_as_owner()
    return store


def act_as_owner() -> None:
    """A command of root's acts as the owner of the store that it is about, once it has found that."""
    if os.geteuid() == 0:
        from journalfs.store_owner import adopt_stores  # noqa: PLC0415 - takes longer than the help text

        adopt_stores()


@dataclass(frozen=True, slots=True)
class Older:
    """What was said of an older store."""

    kind: str | None = None
    derived: Path | None = None


def older_options(command: C) -> C:
    """`older`: what STORE is, if not what it looks like, and where what is derived from it lies."""

    @wraps(command)
    def with_older(*, store_format: str | None, derived: Path | None, **given: object) -> object:
        kind = None if store_format in (None, "artemis") else store_format
        return command(older=Older(kind, derived), **given)

    with_derived = click.option(
        "--derived",
        metavar="DIR",
        type=GivenPath(),
        help="Directory for the store derived from an older one; the cache directory unless told.",
    )(with_older)
    return cast(
        C,
        click.option(
            "--format",
            "store_format",
            type=click.Choice(["artemis", *KINDS]),
            help="Kind of STORE, if not recognised; `mount` then writes to an older one.",
        )(with_derived),
    )


def filter_options(command: C) -> C:
    """`wanted`: which messages of STORE the command is about."""

    @wraps(command)
    def with_wanted(
        *,
        only_queues: tuple[str, ...],
        where: str | None,
        since: str | None,
        until: str | None,
        **given: object,
    ) -> object:
        from journalfs.account.filters import Wanted  # noqa: PLC0415 - takes longer than the help text
        from journalfs.clock import SystemClock  # noqa: PLC0415 - as above

        wanted = Wanted.of(only_queues, where, since, until, SystemClock().now_ms())
        return command(wanted=wanted, **given)

    options = (
        click.option(
            "--queue",
            "only_queues",
            metavar="NAME",
            multiple=True,
            help="Only of this ADDRESS::QUEUE.",
        ),
        click.option("--where", metavar="SELECTOR", help="Only messages that a JMS selector accepts."),
        click.option("--since", metavar="TIME", help="Only messages sent since: -2h, 14:30, yesterday."),
        click.option("--until", metavar="TIME", help="Only messages sent up to then."),
    )
    decorated: object = with_wanted
    for option in reversed(options):
        decorated = option(cast("C", decorated))
    return cast("C", decorated)


def index_option(command: C) -> C:
    return click.option(
        "--no-index", is_flag=True, help="Neither use nor write the index beside the store; scan it all."
    )(command)


def json_option(command: C) -> C:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")(command)


NOT_OLDER = Older()


@contextmanager
def opened(
    path: Path, *, index: bool = True, anew: bool = False, older: Older = NOT_OLDER
) -> Iterator[Store]:
    """The store at `path`, or mounted there, closed at the end; its index is then written if that saves the
    next one time. `anew`: as `open_store` says.
    """
    from journalfs.store import open_store  # noqa: PLC0415 - takes longer than the help text

    name_in_warnings()
    if os.path.ismount(path):
        from journalfs.exchange.targets import mounted_store  # noqa: PLC0415 - few commands get there

        path = mounted_store(path) or path
    store = open_store(path, index=index, anew=anew, kind=older.kind, derived=older.derived)
    try:
        with leaving_readers():
            yield store
    finally:
        store.close()


@contextmanager
def leaving_readers() -> Iterator[None]:
    """What is written has its reader, or the command ends as shells expect it to."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has left, as `head` does. What is still buffered is for nobody, and the
        # interpreter must not fail at its own last flush.
        sys.stdout = io.StringIO()
        sys.exit(EXIT_READER_LEFT)


def name_in_warnings() -> None:
    """What is logged goes to stderr, and begins as the failures of commands do."""
    import logging  # noqa: PLC0415 - takes longer than the help text

    from journalfs.showing import log_lines  # noqa: PLC0415 - as above

    assert logging.lastResort is not None, "nobody took it away"
    logging.lastResort.setFormatter(log_lines("journalfs: %(message)s"))


def find_address(store: Store, name: str) -> Address:
    address = store.address(name)
    if address is not None:
        return address
    owners = [other.name for other in store.addresses() if other.queue(name) is not None]
    names = [other.name for other in store.addresses()]
    hint = (
        f"; did you mean {owners[0]}{SEPARATOR}{name}?"
        if owners
        else nearest(name, [*names, *_queue_names(store)])
    )
    raise WrongCall(f"no address {name!r} in this store{hint}")


def _queue_names(store: Store) -> list[str]:
    return [f"{one.name}{SEPARATOR}{queue.name}" for one in store.addresses() for queue in one.queues()]


def nearest(target: str, known: Sequence[str]) -> str:
    """What is spelled most like what was asked for, as the end of a sentence."""
    import difflib  # noqa: PLC0415 - after a mistake only

    near = difflib.get_close_matches(target, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def named_queue(target: str) -> tuple[str, str | None]:
    """What `ADDRESS::QUEUE` means; no queue, where it is only `ADDRESS`. Raises WrongCall."""
    address, separator, queue = target.partition(SEPARATOR)
    if not address or (separator and not queue):
        raise WrongCall(f"{target!r}: say ADDRESS::QUEUE, or ADDRESS")
    return address, queue if separator else None


def find_queues(store: Store, target: str | None) -> list[Queue]:
    """The queues that `ADDRESS::QUEUE` or `ADDRESS` means; all of the store without a target."""
    if target is None:
        return [queue for address in store.addresses() for queue in address.queues()]
    address_name, queue_name = named_queue(target)
    address = find_address(store, address_name)
    if queue_name is None:
        return list(address.queues())
    queue = address.queue(queue_name)
    if queue is None:
        names = [known.name for known in address.queues()]
        some = ", ".join(names[:NAMES_SHOWN_MAX]) or "none"
        more = f" and {len(names) - NAMES_SHOWN_MAX} others" if len(names) > NAMES_SHOWN_MAX else ""
        near = nearest(target, _queue_names(store))
        raise WrongCall(f"address {address_name!r} has no queue {queue_name!r} (queues: {some}{more}){near}")
    return [queue]


def warn_of_names(views: Sequence[View], selector: str) -> None:
    """Tell people where a selector compares two names that no message of any view has."""
    from journalfs.views.unset_names import warning  # noqa: PLC0415 - few commands select

    said = [warning(view, selector) for view in views if len(view)]
    if said and said[0] is not None and all(said):
        say(f"journalfs: {said[0]}", to_people=True)


def files_below(
    entry: VirtualDirectory | VirtualFile | None, *, by_name: bool = True
) -> Iterator[tuple[str, VirtualFile]]:
    """Names and files of a directory of the control tree, however deep, in the order of their names, or in
    that of the directory: of a journal, by their ids.
    """
    if entry is None or not hasattr(entry, "children"):
        return
    directory = cast("VirtualDirectory", entry)
    children = directory.children()
    for name, child in sorted(children, key=itemgetter(0)) if by_name else children:
        if hasattr(child, "children"):
            yield from files_below(child, by_name=by_name)
        else:
            yield name, child


def write_all(source: ByteSource) -> None:
    """Copy an open file to standard output and close it."""
    try:
        out = sys.stdout.buffer
        for piece in windows(source):
            out.write(piece)
    finally:
        source.close()


def say(text: str, *, to_people: bool = False) -> None:
    """A line of what was found, or beside it, on stderr. Names in it are no commands to a terminal; tabs may
    stand between its parts.
    """
    from journalfs.showing import printable  # noqa: PLC0415 - takes longer than the help text

    click.echo("\t".join(map(printable, text.split("\t"))), err=to_people)


def end_with(act: Callable[[], None], code: int = EXIT_OK) -> NoReturn:
    """End the command with an exit code, with what must be its last act: a kill while the interpreter ends,
    which takes tens of milliseconds, would come after it.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    act()
    if Path(sys.argv[0]).name == "journalfs":
        os._exit(code)
    sys.exit(code)  # another program runs the command, and goes on


def write_json(values: Iterable[object], *, err: bool = False) -> None:
    """Write one JSON object a line, on stderr with `err`: where stdout has data."""
    import msgspec  # noqa: PLC0415

    from journalfs.showing import shown_in  # noqa: PLC0415

    encode = msgspec.json.Encoder().encode
    out = (sys.stderr if err else sys.stdout).buffer
    for value in values:
        try:
            line = encode(value)
        except UnicodeEncodeError:  # a name that is no UTF-8
            line = encode(shown_in(value))
        out.write(line + b"\n")


def write_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns under a header on a terminal; otherwise tab-separated rows alone, for other tools.

    Columns of numbers are right-aligned. Control characters in names are shown escaped, so that a name cannot
    break its line.
    """
    out = sys.stdout
    if not out.isatty():
        out.writelines("\t".join(map(_cell, row)) + "\n" for row in rows)
        return
    kept = [list(row) for row in rows]
    numeric = [bool(kept) and all(isinstance(row[i], int) for row in kept) for i in range(len(header))]
    texts = [list(header), *(list(map(_cell, row)) for row in kept)]
    width = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        cells = [text.rjust(width[i]) if numeric[i] else text.ljust(width[i]) for i, text in enumerate(line)]
        out.write("  ".join(cells).rstrip() + "\n")


def _cell(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    if value is None:
        return "-"
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def when(time_ms: int) -> str | None:
    """A time in milliseconds as people read it, in UTC; None for 0, which says that there is none."""
    return f"{_second(time_ms // 1000)}.{time_ms % 1000:03d}Z" if time_ms else None


@lru_cache(maxsize=4096)
def _second(time_s: int) -> str:
    """Messages come in bursts: the many of one second share this text, which takes long to make."""
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415

    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time_s)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return f"@{time_s}"  # a client may write any 64-bit number as its time
