"""Finds the parts of a store from whatever path a user gives.

Taken are: a broker instance (`config.instance` says how its configuration is found), a folder with
`broker.xml`, a `broker.xml` itself, a data directory (`journal/`, `bindings/`, ...), a folder with that as
`data/`, a journal directory, and a retention directory, which belongs to the store above it that keeps its
history there. When a broker.xml belongs to what was given, its directories win over the usual places, because
they are where the broker writes. Exceptions: directories of a configuration that has none of them on this
machine (an instance copied from elsewhere) give way to `data/` beside it, and a configuration whose store is
not the data directory that was asked for, or that cannot be read beside it, is left alone. Each leaves a
warning. A `journalfs.toml` in the data directory wins over all. A configuration that is said by hand
(`CONFIG_VARIABLE`) belongs to whatever was given.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from journalfs import door, limits
from journalfs.config.activemq_xml import is_of_activemq_5
from journalfs.config.address_settings import Value
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.core_settings import RETENTION_DIRECTORY, value_in_force
from journalfs.config.data_directory import (
    BINDINGS_EXTENSION,
    BINDINGS_PREFIX,
    JOURNAL_EXTENSION,
    JOURNAL_PREFIX,
    LARGE_NAMES,
    PARTS,
    has_bindings,
    has_journal,
    is_data_directory,
    names_in,
)
from journalfs.config.database import DatabaseStore, database_named, other_scheme
from journalfs.config.elsewhere import absolute, followed, parts_elsewhere
from journalfs.config.files import CONFIG_VARIABLE, CONFIGURED_BY, DERIVED_NAME, TOML_NAME, read_beginning
from journalfs.config.instance import Instance, find_instance, standard_properties
from journalfs.config.misnamed import misnamed, mount_around
from journalfs.config.older import (
    ACTIVEMQ,
    AMQ,
    KAHADB,
    NO_BINDINGS,
    refuse_messaging,
    refuse_other_journals,
    refuse_other_layouts,
)
from journalfs.errors import (
    ConfigError,
    NotAStore,
    OlderStore,
    SystemFailure,
    UnknownVersion,
    WrongCall,
    failing,
)

DIRECTORY_FIELDS: Final = {
    "journal-directory": "journal_dir",
    "bindings-directory": "bindings_dir",
    "paging-directory": "paging_dir",
    "large-messages-directory": "large_dir",
    "node-manager-lock-directory": "node_manager_lock_dir",
    "journal-retention-directory": "retention_dir",
}
"""Settings that are directories, with where a layout has them: journalfs.toml may move them."""

_OF_HISTORY: Final = re.compile(rf".+-[0-9]{{14}}-[0-9]+\.{JOURNAL_EXTENSION}")
"""What a journal file is called that was kept: by when, and with which id."""

_ABOVE_MAX: Final = 4
"""How many directories above a history its store is looked for in."""

_MAY_BE_THERE: Final = frozenset({TOML_NAME, "lost+found"})
"""In a directory that is empty otherwise and becomes a store."""

_LOOKED_FOR: Final = (
    "etc/broker.xml",
    "broker.xml",
    f"journal/*.{JOURNAL_EXTENSION}",
    f"bindings/*.{BINDINGS_EXTENSION}",
    f"*.{JOURNAL_EXTENSION}",
)


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Where a store's parts are. Any directory may be missing: a broker makes some only when needed."""

    root: Path
    """The data directory (for a lone journal: that directory)."""
    config: BrokerConfig | None
    journal_dir: Path
    bindings_dir: Path
    paging_dir: Path
    large_dir: Path
    node_manager_lock_dir: Path
    retention_dir: Path | None
    warnings: tuple[str, ...] = ()
    journal_prefix: str = JOURNAL_PREFIX
    journal_extension: str = JOURNAL_EXTENSION
    bindings_prefix: str = BINDINGS_PREFIX
    bindings_extension: str = BINDINGS_EXTENSION
    history_of: Path | None = None
    """The store whose history this is: the journal is that, and all names are of the store, which is only
    read.
    """
    linked: tuple[str, ...] = ()
    """What is to be said before it is written to: parts that lie elsewhere, by links of its own."""
    outside: str | None = None
    """Why it is not written to: it lies outside of what was named; None: it lies within, or its configuration
    was said by hand.
    """

    def below(self, root: Path) -> StoreLayout:
        """The same store with all of its directories below another root, and without a history."""
        return replace(
            self,
            root=root,
            journal_dir=root / "journal",
            bindings_dir=root / "bindings",
            paging_dir=root / "paging",
            large_dir=root / "large-messages",
            node_manager_lock_dir=root / "journal",
            retention_dir=None,
        )

    @property
    def parts(self) -> tuple[Path, ...]:
        """The data directory, and each that a setting names."""
        found = (getattr(self, field) for field in DIRECTORY_FIELDS.values())
        return (self.root, *(place for place in found if place is not None))

    @property
    def places(self) -> tuple[Path, ...]:
        """All directories that there are, or may be, once each."""
        return tuple(dict.fromkeys(self.parts))

    def refuse_outside(self) -> None:
        """Raise `WrongCall` where writing would change another store than the one that was named."""
        if self.outside is not None:
            raise WrongCall(self.outside)

    def enter(self) -> None:
        """Reach it as its owner from now on, if this process is root's, which acts as others with others.
        Raises OSError and `SystemFailure`.
        """
        door.enter(dict.fromkeys((self.root, *self.places)))

    @property
    def not_kept_by(self) -> str | None:
        """What says that nothing is kept in files (`persistence-enabled`); None for a store that is kept."""
        said = self.config.core.get("persistence-enabled") if self.config is not None else None
        return said.file if said is not None and said.value is False else None

    def value_in_force(self, name: str) -> Value | None:
        """A setting of the broker as a whole; None: the broker works it out, or there is none."""
        return value_in_force(self.config.core if self.config is not None else {}, name)

    @property
    def broker_xml(self) -> Path | None:
        file = self.config.file if self.config is not None else None
        return None if file is None or file.name == TOML_NAME else file


def locate_store(
    path: Path | str, *, environment: Mapping[str, str] | None = None, adopting: bool = True
) -> StoreLayout:
    """Find the store that `path` means. `adopting`: a command of root's acts as its owner from now on.

    Raises `NotAStore` (saying what was looked for), `UnknownVersion` for stores of older software or of
    another kind, `DatabaseStore` for one in a database, `ConfigError` for a broker.xml with mistakes,
    `SystemFailure` when a directory cannot be read.
    """
    refuse_database(path, environment)
    given = absolute(path)
    try:
        layout = _checked(given, environment)
        if not _is_derived(layout.root):
            _refuse_of_activemq_5(given, environment)
        return _adopted(layout) if adopting else layout
    except OlderStore as older:
        if older.kind not in (AMQ, KAHADB):
            _refuse_of_activemq_5(given, environment)
        raise
    except OSError as error:
        raise SystemFailure.from_os(error, _refused_at(error, given), doing="look for a store") from error


def refuse_database(path: Path | str, environment: Mapping[str, str] | None = None) -> None:
    """Raise `DatabaseStore` for a URL: a configuration that was said by hand has the settings, and the names
    of tables.
    """
    database = database_named(path)
    if database is None:
        if (other := other_scheme(path)) is not None:
            known = "postgresql://, mysql://, mariadb://, sqlite:///, or jdbc: with a driver"
            raise NotAStore(f"{other}:", "no directory, and no kind of database that is known", give=known)
        return
    _refuse_of_activemq_5(database.shown, environment)
    chosen = _chosen(environment)
    found = None if chosen is None else _configuration_of(chosen, environment)
    if found is not None:
        config = _read(found, environment)
        said = config.database or replace(database, config=config.file)
        user, password = (None, None) if "@" in database.url else (said.user, said.password)
        database = replace(said, url=database.url, jdbc_url=database.jdbc_url, user=user, password=password)
    raise DatabaseStore(database)


def refuse_unknown_names(path: Path | str, *, environment: Mapping[str, str] | None = None) -> None:
    """Raise `ConfigError` for a name in the configuration of a store to be made that no broker knows: it is
    somebody's mistake, and nothing is there yet that has to open in spite of it.
    """
    _refuse_of_activemq_5(path, environment)
    found = _configuration_of(Path(os.path.abspath(path)), environment)
    for one in _read(found, environment).unknown if found is not None else ():
        raise ConfigError(one.file, one.reason, line=one.line, setting=one.setting)


def _refuse_of_database(layout: StoreLayout, *, said_by_hand: bool) -> None:
    """Raise `DatabaseStore` where the configuration keeps the store in one."""
    database = None if layout.config is None else layout.config.database
    if database is None or layout.config is None or layout.not_kept_by is not None:
        return
    own = layout.root / TOML_NAME
    database = replace(database, own=own if own.is_file() else None)
    start = layout.config.start
    if start is not None and start.made_at is not None and not said_by_hand:
        # Of a copied instance: a database in files was copied too, and a server's is the original's.
        database = database.carried(start.carried)
        if not any(one.is_relative_to(start.folder) for one in database.files):
            file = layout.config.file
            told = f"{file} names it, and the instance was made as {start.made_at}, whose store this may be"
            ways = f"it is not written to unless you give the URL itself, or --config {file}"
            database = replace(database, outside=f"{database.shown}: {told}; {ways}")
    raise DatabaseStore(database)


def _refused_at(error: OSError, given: Path) -> Path:
    """What to name: of a directory that may not be looked into that itself, not the file looked for in it."""
    place = Path(os.fsdecode(error.filename)) if error.filename is not None else given
    if error.errno != errno.EACCES or place == given:
        return place
    shut = (
        folder for folder in reversed(place.parents) if not os.access(folder, os.X_OK, effective_ids=True)
    )
    return next(shut, place)


def _checked(given: Path, environment: Mapping[str, str] | None) -> StoreLayout:
    _require_path(given)
    given = followed(given)
    if given.name == TOML_NAME and given.is_file():
        given = given.parent
    refuse_messaging(_folder(given))
    layout = _history(given, environment) or _in_place(given, environment)
    if layout is None:
        _refuse_older(_folder(given))
        if (found := misnamed(given, is_store=False)) is not None:
            raise NotAStore(given, found.reason, give=found.give)
        raise NotAStore(given, "no message store here", looked_for=_LOOKED_FOR)
    layout = _with_own_settings(_with_odd_files_named(layout, given))
    layout = _bounded(given, _entered(layout), layout, environment)
    _refuse_of_database(layout, said_by_hand=_chosen(environment) is not None)
    is_there = has_journal(layout.journal_dir) or has_bindings(layout.bindings_dir)
    try:
        refuse_other_layouts(layout.root)
    except UnknownVersion:
        if not is_there:  # else it lies beside what was found
            raise
    try:
        refuse_other_journals(layout.journal_dir, layout.bindings_dir)
    except OlderStore as older:
        older.layout = layout if layout.config is not None else None
        raise
    if layout.not_kept_by is None and not is_there:
        told = "".join(f"; {warning}" for warning in layout.warnings)
        places = f"no journal files in {layout.journal_dir} or {layout.bindings_dir}"
        raise NotAStore(given, f"{places}; has the broker ever run?{told}")
    return layout


def locate_derived(place: Path, found: OlderStore) -> StoreLayout:
    """Find the store that was derived from an older one, with the settings that its configuration said."""
    if found.layout is None or found.layout.broker_xml is None:
        return locate_store(place)
    said = {**os.environ, CONFIG_VARIABLE: str(found.layout.broker_xml)}
    return locate_store(place, environment=said)


def plan_store(
    path: Path | str, *, environment: Mapping[str, str] | None = None, adopting: bool = True
) -> StoreLayout:
    """Where the parts of a store go that is to be made at `path`: as the configuration there says, else in
    the usual places. `adopting` is as for `locate_store`. Raises what `locate_store` raises, and `WrongCall`
    if something is there already.
    """
    given = absolute(path)
    with failing("make a store", given, found=True):
        planned = _planned(given, environment)
        return _adopted(planned) if adopting else planned


def _planned(given: Path, environment: Mapping[str, str] | None) -> StoreLayout:
    if given.name == TOML_NAME and given.is_file():
        given = given.parent
    refuse_in_mount(given)
    found = _configuration_of(given, environment)
    if found is None and given.exists() and not given.is_dir():
        raise WrongCall(f"{given}: a store is a directory, and this is none")
    if found is not None:
        layout = _by_configuration(_read(found, environment))
    else:
        layout = _usual(given, journal=given / "journal", bindings=given / "bindings")
    layout = _with_own_settings(layout)
    layout = _bounded(given, _entered(layout), layout, environment)
    _refuse_of_database(layout, said_by_hand=_chosen(environment) is not None)
    layout.refuse_outside()
    if has_journal(layout.journal_dir) or has_bindings(layout.bindings_dir):
        raise WrongCall(f"{layout.root}: there is a store already")
    refuse_other_layouts(layout.root)
    refuse_other_journals(layout.journal_dir, layout.bindings_dir)
    unexpected = sorted(set(names_in(given)) - _MAY_BE_THERE) if found is None else []
    if unexpected:
        raise WrongCall(f"{given}: the directory is not empty: it holds {unexpected[0]!r}")
    return layout


def refuse_in_mount(given: Path) -> None:
    """Raise `WrongCall` for a path in a mounted store: what is made there is staged, or becomes messages."""
    root = mount_around(given)
    if root is not None:
        why = f"lies in the store that is mounted at {root}, where files become messages"
        raise WrongCall(f"{given}: {why}; give a directory outside of {root}")


def _require_path(given: Path) -> None:
    """Raise `NotAStore` for a path where nothing is or can be, `OSError` for one that cannot be looked at."""
    try:
        os.stat(given)
    except (FileNotFoundError, NotADirectoryError):
        there = next((one for one in given.parents if one.is_dir()), None)
        found = misnamed(given, is_store=there is not None and looks_like_store(there))
        if found is not None:
            raise NotAStore(given, found.reason, give=found.give) from None
        raise NotAStore(given, "there is no such directory") from None
    except ValueError:  # NUL, or half of a character: no file can have this name
        raise NotAStore(ascii(str(given))[1:-1], "no directory can have this name") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            raise NotAStore(given, f"no path: {error.strerror}") from None
        raise


def _in_place(given: Path, environment: Mapping[str, str] | None) -> StoreLayout | None:
    chosen = _chosen(environment)
    found = _configuration_of(given, environment)
    if found is not None and (chosen is None or not is_data_directory(given)):
        return _configured(found, environment)
    if given.is_file():
        return None
    below = (given, given / "data", given / "standalone" / "data")
    whole = [*below[:2], *(one / ACTIVEMQ for one in below)]
    if given.name in PARTS:  # alone, it is a journal without the rest
        whole.append(given.parent)
    for data in whole:
        if is_data_directory(data):
            return _derived(data, environment) or _data_directory(data, environment)
    if has_journal(given) or has_bindings(given):
        alone = _usual(given, journal=given, bindings=given)
        return alone if has_bindings(given) else _with_warning(alone, f"{given}: a journal {NO_BINDINGS}")
    return None


def _history(given: Path, environment: Mapping[str, str] | None) -> StoreLayout | None:
    """A folder in which journal files are kept, by what is found above it, or was said by hand: the store
    that keeps them there has the names of queues.
    """
    if not any(_OF_HISTORY.fullmatch(name) for name in names_in(given)):
        return None
    chosen = _chosen(environment)
    for folder in given.parents[: _ABOVE_MAX if chosen is None else 1]:
        try:
            of = _in_place(folder, environment)
            of = of if of is None else _with_own_settings(of)
        except (ConfigError, NotAStore, SystemFailure, OSError):
            if chosen is not None:
                raise
            continue  # it is no configuration of this one, as far as can be seen
        if of is None or of.journal_dir == given:
            continue
        if chosen is not None or (of.retention_dir is not None and _is_same(of.retention_dir, given)):
            return replace(
                of,
                root=given,
                journal_dir=given,
                node_manager_lock_dir=given,
                paging_dir=given / "paging",
                large_dir=given / LARGE_NAMES[0],
                retention_dir=None,
                history_of=of.root,
            )
    return None


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _chosen(environment: Mapping[str, str] | None) -> Path | None:
    """The configuration that was said by hand. One of ActiveMQ 5 says nothing of a store of this kind: its
    own kind asks for it (`activemq_xml`).
    """
    said = (os.environ if environment is None else environment).get(CONFIG_VARIABLE)
    return Path(os.path.abspath(said)) if said and not is_of_activemq_5(Path(said)) else None


def _refuse_of_activemq_5(path: Path | str, environment: Mapping[str, str] | None) -> None:
    """Raise `ConfigError` where a configuration of ActiveMQ 5 was said by hand of another kind of store:
    nothing of it would be obeyed.
    """
    said = (os.environ if environment is None else environment).get(CONFIG_VARIABLE)
    if said and is_of_activemq_5(Path(said)):
        reason = f"a configuration of ActiveMQ 5, and {path} is no store of ActiveMQ 5"
        raise ConfigError(said, f"{reason}; leave --config ({CONFIG_VARIABLE}) out, or give its broker.xml")


@contextmanager
def of_today() -> Iterator[None]:
    """Take a configuration of ActiveMQ 5 that was said by hand as that of a store from which another is made:
    the new one is located without it.
    """
    said = os.environ.get(CONFIG_VARIABLE)
    if not said or not is_of_activemq_5(Path(said)):
        yield
        return
    del os.environ[CONFIG_VARIABLE]
    try:
        yield
    finally:
        os.environ[CONFIG_VARIABLE] = said


def _is_derived(root: Path) -> bool:
    """Return True for what was derived from an older store, whose configuration that is."""
    return (root / DERIVED_NAME).is_file()


def _configuration_of(given: Path, environment: Mapping[str, str] | None) -> Instance | None:
    """What belongs to a path, or was said by hand. Raises `ConfigError` and `SystemFailure`."""
    chosen = _chosen(environment)
    if chosen is not None and not chosen.is_file():
        raise ConfigError(chosen, "was said to be the configuration, and is no file")
    if chosen is not None or given.is_file():
        file = chosen or given
        if chosen is None and file.suffix != ".xml":
            return None
        folder = file.parent.parent if file.parent.name == "etc" else file.parent
        found = find_instance(folder, os.environ if environment is None else environment, said=file)
        if found is None:
            return Instance(folder, file.parent, file, standard_properties(folder, file.parent))
        return replace(found, etc=file.parent, configuration=file)
    return find_instance(given, os.environ if environment is None else environment)


def _read(found: Instance, environment: Mapping[str, str] | None) -> BrokerConfig:
    return read_broker_xml(found.configuration, instance=found.folder, environment=environment, start=found)


def _with_odd_files_named(layout: StoreLayout, given: Path) -> StoreLayout:
    """With a warning for what stands where a broker.xml is looked for and is no file: it is not opened."""
    if layout.config is not None:
        return layout
    for folder in dict.fromkeys((_folder(given), layout.root, layout.root.parent)):
        for file in (folder / "etc" / "broker.xml", folder / "broker.xml"):
            if os.path.lexists(file) and not file.is_file():
                layout = _with_warning(layout, f"{file}: not a regular file, so no configuration is read")
    return layout


def _configured(found: Instance, environment: Mapping[str, str] | None) -> StoreLayout:
    file, instance = found.configuration, found.folder
    try:
        config = _read(found, environment)
    except (ConfigError, SystemFailure) as error:
        data = instance / "data"
        if not is_data_directory(data):
            raise
        raise _with_advice(error, f"to do without it, give the data directory {data}") from error
    layout = _by_configuration(config)
    if layout.journal_dir.is_dir() or layout.bindings_dir.is_dir():
        return layout
    for data in (instance / "data", instance):
        if is_data_directory(data):
            usual = _usual(data, journal=data / "journal", bindings=data / "bindings", config=layout.config)
            reason = (
                f"{file}: its directories ({layout.journal_dir}, ...) are not on this machine; using {data}"
            )
            return _with_warning(usual, reason)
    return layout


def _with_advice(error: ConfigError | SystemFailure, advice: str) -> ConfigError | SystemFailure:
    if isinstance(error, ConfigError):
        return ConfigError(error.file, f"{error.reason}; {advice}", line=error.line, setting=error.setting)
    return SystemFailure(f"{error}; {advice}", system_errno=error.system_errno)


def _data_directory(data: Path, environment: Mapping[str, str] | None) -> StoreLayout:
    inside = has_journal(data / "journal") or has_bindings(data / "bindings")
    if not inside and (has_journal(data) or has_bindings(data)):
        return _usual(data, journal=data, bindings=data)  # a lone journal with a journalfs.toml
    usual = _usual(data, journal=data / "journal", bindings=data / "bindings")
    chosen = _chosen(environment)
    try:
        found = _configuration_of(data.parent, environment)
        config = _read(found, environment) if found is not None else None
    except (ConfigError, SystemFailure) as error:
        if chosen is not None:
            raise
        return _with_warning(usual, f"{error}; not used, so the settings are those of a broker without it")
    if found is None or config is None:
        return usual
    layout = _by_configuration(config)
    parts = (layout.journal_dir, layout.bindings_dir)
    if any(_lies_in(part, data) or _is_within(part, data) for part in parts):
        return layout
    if chosen is not None:
        return _usual(data, journal=data / "journal", bindings=data / "bindings", config=config)
    reason = f"{found.configuration}: not used, because its store is {layout.root}, not {data}"
    return _with_warning(usual, reason)


def _derived(data: Path, environment: Mapping[str, str] | None) -> StoreLayout | None:
    """Of what is derived from a database, where a file says which configuration that has: all but places are
    as it says.
    """
    said = data / CONFIGURED_BY
    if not said.is_file():
        return None
    broker_xml, *own = map(Path, os.fsdecode(read_beginning(said, limits.TOML_BYTES_MAX)).split("\0"))
    found = _configuration_of(broker_xml, environment)
    if found is None:
        raise ConfigError(broker_xml, "it was the configuration of what this was derived from, and is gone")
    config = _read(found, environment)
    for one in own:
        from journalfs.config.journalfs_toml import read_journalfs_toml  # noqa: PLC0415 - as below

        config = read_journalfs_toml(one, config)
    core = {name: value for name, value in config.core.items() if name != RETENTION_DIRECTORY}
    config = replace(config, database=None, derived_from=config.database, core=core)
    return _usual(data, journal=data / "journal", bindings=data / "bindings", config=config)


def _by_configuration(config: BrokerConfig) -> StoreLayout:
    journal = config.directory("journal-directory")
    bindings = config.directory("bindings-directory")
    lock = config.core_value("node-manager-lock-directory")
    large = config.directory("large-messages-directory")
    if "large-messages-directory" not in config.core:
        large = _existing(large.parent, LARGE_NAMES, default=large)
    return StoreLayout(
        root=_common_root(journal, bindings),
        config=config,
        journal_dir=journal,
        bindings_dir=bindings,
        paging_dir=config.directory("paging-directory"),
        large_dir=large,
        node_manager_lock_dir=config.resolve(lock) if isinstance(lock, str) else journal,
        retention_dir=config.resolve(config.retention_directory) if config.retention_directory else None,
        warnings=config.warnings,
    )


def _usual(root: Path, *, journal: Path, bindings: Path, config: BrokerConfig | None = None) -> StoreLayout:
    retention = root / "retention"
    kept = config is not None and config.retention_directory is not None
    return StoreLayout(
        root=root,
        config=config,
        journal_dir=journal,
        bindings_dir=bindings,
        paging_dir=root / "paging",
        large_dir=_existing(root, LARGE_NAMES, default=root / LARGE_NAMES[0]),
        node_manager_lock_dir=journal,
        retention_dir=retention if kept or has_journal(retention) else None,
        warnings=config.warnings if config is not None else (),
    )


def _with_own_settings(layout: StoreLayout) -> StoreLayout:
    """What the data directory's journalfs.toml says instead."""
    file = layout.root / TOML_NAME
    if not file.is_file():
        return layout
    # Most stores have none, and its parser takes a while to import.
    from journalfs.config.journalfs_toml import read_journalfs_toml  # noqa: PLC0415

    config = read_journalfs_toml(file, layout.config)
    moved: dict[str, Any] = {
        field: Path(os.path.normpath(layout.root / str(config.core[name].value)))
        for name, field in DIRECTORY_FIELDS.items()
        if name in config.core and config.core[name].origin == TOML_NAME
    }
    if "journal_dir" in moved and layout.node_manager_lock_dir == layout.journal_dir:
        moved = {"node_manager_lock_dir": moved["journal_dir"], **moved}
    return replace(layout, config=config, **moved)


def _entered(layout: StoreLayout) -> StoreLayout:
    """The layout with its directories as they are reached from now on: without links. Raises OSError."""
    fields = ("root", *DIRECTORY_FIELDS.values())
    found = {name: getattr(layout, name) for name in fields}
    places: dict[str, Any] = {name: door.resolved(one) for name, one in found.items() if one is not None}
    return replace(layout, **places)


def _bounded(
    given: Path, layout: StoreLayout, said: StoreLayout, environment: Mapping[str, str] | None
) -> StoreLayout:
    """Return the layout with `outside`, and a warning, where parts of it lie outside of what was named, which
    decides. `said`: as it was before links were followed.
    """
    if _chosen(environment) is not None or layout.history_of is not None:
        return layout
    if _is_derived(layout.root):
        return layout  # its large bodies are those of what it is derived from
    named = _folder(given)
    if named.name in (*PARTS, "etc") and (named.name == "etc" or is_data_directory(named.parent)):
        named = named.parent
    # What a data directory has itself, links and journalfs.toml, is as somebody who names it wants it, but
    # for what is another store's.
    of_data = is_data_directory(named) or layout.broker_xml is None
    outside = [one for one in (_own_places(said) if of_data else layout.places) if not _lies_in(one, named)]
    if outside:
        return _outside(named, layout, said, outside, of_data=of_data)
    start = layout.config.start if layout.config is not None else None
    copied = None if start is None or start.made_at is None else (start.folder, start.made_at)
    found = parts_elsewhere(named, zip(said.parts, layout.parts, strict=True), copied)
    others = [one for one in found if one.of is not None]
    if not others:
        return replace(layout, linked=tuple(f"{named}: {one.told()}" for one in found))
    told = f"{named}: {', '.join(one.told() for one in others)}"
    refusal = f"{told}: it is not written to, since this may be another store than was meant"
    ways = [
        f"give {others[0].of} itself",
        f"put a copy of {others[0].place} in the place of {others[0].part}",
    ]
    return _refused(layout, told, refusal, [*ways, *_by_hand(layout)])


def _outside(
    named: Path, layout: StoreLayout, said: StoreLayout, outside: list[Path], *, of_data: bool
) -> StoreLayout:
    remedies = [] if of_data or not is_data_directory(layout.root) else [layout.root]
    remedies = [one for one in remedies if all(_lies_in(place, one) for place in _own_places(layout))]
    ways = [f"give the data directory {one} itself" for one in remedies]
    outermost = [one for one in dict.fromkeys(outside) if not set(one.parents) & set(outside)]
    where = ", ".join(map(str, outermost))
    is_linked = all(_lies_in(one, named) for one in said.places)
    by = " (by a link)" if is_linked else f" ({layout.broker_xml} says so)"
    told = f"{named}: what it leads to is {where}, outside of {named}{by}"
    refusal = f"{told}: it is not written to, since this may be another store than was meant"
    return _refused(layout, told, refusal, [*ways, *_by_hand(layout)])


def _by_hand(layout: StoreLayout) -> list[str]:
    file = layout.broker_xml
    said = f"say the configuration by hand, --config {file} or {CONFIG_VARIABLE}={file}"
    return [] if file is None else [said]


def _refused(layout: StoreLayout, told: str, refusal: str, ways: list[str]) -> StoreLayout:
    text = "; ".join([refusal, " or ".join(ways)] if ways else [refusal])
    return replace(_with_warning(layout, told), outside=text)


def _own_places(layout: StoreLayout) -> tuple[Path, ...]:
    """Directories of a store that no journalfs.toml of it names."""
    core = layout.config.core if layout.config is not None else {}
    own = {
        getattr(layout, field)
        for name, field in DIRECTORY_FIELDS.items()
        if name in core and core[name].origin == TOML_NAME
    }
    return tuple(one for one in layout.places if one not in own)


def _lies_in(place: Path, folder: Path) -> bool:
    return place.is_relative_to(folder)


def _adopted(layout: StoreLayout) -> StoreLayout:
    """The layout, reached as the store's owner would from now on. Raises OSError and `SystemFailure`."""
    door.adopt((layout.root / "journalfs", *layout.places))
    door.keep_modes(layout.places, layout.journal_dir)
    return layout


def _with_warning(layout: StoreLayout, warning: str) -> StoreLayout:
    return replace(layout, warnings=(*layout.warnings, warning))


def looks_like_store(folder: Path) -> bool:
    """True for a data directory, or an instance with one. Raises `SystemFailure`."""
    return any(map(is_data_directory, (folder, folder / "data")))


def _existing(parent: Path, names: tuple[str, ...], *, default: Path) -> Path:
    return next((parent / name for name in names if (parent / name).is_dir()), default)


def _is_within(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _common_root(journal: Path, bindings: Path) -> Path:
    # The directory that the broker's own folders share; journalfs keeps its derived files beside them.
    return journal.parent if journal.parent == bindings.parent else journal


def _folder(given: Path) -> Path:
    return given if given.is_dir() else given.parent


def _refuse_older(folder: Path) -> None:
    """Raise for another product's store, of which `folder` is the data directory, one above or one below."""
    parts = folder.name in PARTS
    below = (folder, folder / "data", folder / ACTIVEMQ, folder / "data" / ACTIVEMQ)
    for data in (folder.parent,) if parts else below:
        refuse_other_layouts(data)
        if (data / "journal").is_dir() or (data / "bindings").is_dir():
            refuse_other_journals(data / "journal", data / "bindings")
    refuse_other_layouts(folder)
    refuse_other_journals(folder, folder)
