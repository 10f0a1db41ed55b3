"""Stores that are kept in a database: how they are named, and what `database-store` says of them."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode

from journalfs import door
from journalfs.config.sizes import parse_size_bytes
from journalfs.errors import ConfigError, MaskedValueError, UnknownVersion, WrongCall

DRIVERS: Final = {
    "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql", "sqlite": "sqlite", "sqlserver": "mssql+pyodbc", "mssql": "mssql+pyodbc",
    "oracle": "oracle+oracledb", "db2": "ibm_db_sa",
}  # fmt: skip
"""The first word of a URL -> SQLAlchemy's dialect and driver."""

DERBY: Final = "derby"
"""No driver of Python: its own one of Java only."""


@functools.cache
def _named() -> re.Pattern[str]:
    """A URL, also where it went through a path: that folds `//`, and may have put a directory before it."""
    words = rf"(?:jdbc:)?(?:{'|'.join((*DRIVERS, DERBY))})(?:\+\w+)?(?::thin)?"
    return re.compile(rf"(?:^|/)({words}):(.*)$", re.DOTALL | re.IGNORECASE)


_SERVER: Final = re.compile(r"/+([\w.-]+:\d+/.*)$", re.DOTALL)
"""Behind `jdbc:derby:`; else it is a folder."""

_HOST: Final = r"(?:\[[0-9a-f:.%]+\]|[^@:/?,\[\]]+)?(?::\d+)?"
_PLACE: Final = re.compile(
    rf"(?:(?P<login>.*?)@)??(?P<hosts>{_HOST}(?:,{_HOST})*)(?:/(?P<database>[^/?@]*))?"
    r"(?:\?(?P<parameters>&*\w[\w.-]*(?:[=&].*)?)?)?",
    re.DOTALL | re.IGNORECASE,
)
"""What is behind the slashes. A password that nobody encoded may have any of `@:/?` in it."""

_PASSWORDS: Final = re.compile(
    r"(:/{1,2}|:thin:)([^:/@?\s]*)(?::|(?<=[^:/])/)[^?@\s]*@|([?&;]\w*password=)[^&;\s]*", re.IGNORECASE
)
_TYPED_PASSWORDS: Final = re.compile(
    r":/{1,2}[^:/@?\0]*:([^\0]*)@|:thin:[^/@\0]*/([^\0]*)@|[?&;]\w*password=([^&;\0]*)", re.IGNORECASE
)
"""Among the arguments of a process, as they were typed."""
_TWO_SLASHES: Final = r"\1//"
_SERVERS: Final = frozenset({"postgresql", "postgres", "mysql", "mariadb"})
_ONE_SERVER: Final = "give one server of MySQL or MariaDB as mysql://user@host:3306/database"
_TLS_MODES: Final = {
    "disabled": "disable", "preferred": "prefer", "required": "require", "trust": "require",
    "verify-identity": "verify-full",
}  # fmt: skip
_LOGIN_WORDS: Final = frozenset({"user", "username", "password"})
_SCHEMA_WORDS: Final = frozenset({"currentSchema", "options"})
_KEPT_WORDS: Final = frozenset(
    {"host", "unix_socket", "charset", "sslmode", "sslrootcert", "sslcert", "sslkey", "service_name"}
)
"""Parameters of a URL that drivers of Python know too; others are of Java drivers. What names PostgreSQL
without `jdbc:` has those of the Python driver.
"""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Which database, and what the tables are called. Names of settings are the broker's."""

    url: str
    """SQLAlchemy's; without user and password where `user` and `password` say them."""
    jdbc_url: str | None = None
    """As Java has it, where it was given so."""
    scheme: str | None = None
    """What the URL began with, as it was typed."""
    driver_class: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    message_table: str = "MESSAGES"
    bindings_table: str = "BINDINGS"
    large_message_table: str = "LARGE_MESSAGES"
    page_store_table: str = "PAGE_STORE"
    node_manager_table: str = "NODE_MANAGER_STORE"
    network_timeout_ms: int = 20_000
    lock_renew_period_ms: int = 4_000
    lock_expiration_ms: int = 20_000
    lock_acquisition_timeout_ms: int = -1
    allowed_time_diff_ms: int = 250
    sync_period_ms: int = 5
    page_bytes_max: int = 102_400
    pool: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`data-source-properties`."""
    config: Path | None = None
    """The broker.xml that says so."""
    own: Path | None = None
    """The journalfs.toml that overrules it."""
    to_be_made: bool = False
    """True where somebody said that a store is to be made, beside tables of other programs too."""
    is_shared: bool = False
    """True where its broker has an `ha-policy` with a shared store: it takes the lease, and waits for it."""
    said: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where each element stands, by name: file and line."""
    outside: str | None = None
    """Why it is not written to; None: it is what was named."""

    def refuse_outside(self) -> None:
        """Raise `WrongCall` where writing would change another store than the one that was named."""
        if self.outside is not None:
            raise WrongCall(self.outside)

    def carried(self, carried: Callable[[Path], Path]) -> DatabaseSettings:
        """Return the settings with the files of the database as they are in an instance that was copied."""
        url, jdbc_url = self.url, self.jdbc_url
        for file in self.files:
            new = str(carried(file))
            url = url.replace(str(file), new)
            jdbc_url = None if jdbc_url is None else jdbc_url.replace(str(file), new)
        return replace(self, url=url, jdbc_url=jdbc_url)

    @property
    def dialect(self) -> str:
        """As SQLAlchemy calls it."""
        return self.url.partition(":")[0].partition("+")[0]

    @property
    def files(self) -> tuple[Path, ...]:
        """The file of SQLite, or the folder of Derby, that it is in."""
        if self.dialect == DERBY and not str(self.jdbc_url).startswith(f"jdbc:{DERBY}://"):
            return (Path(str(self.jdbc_url).partition(";")[0].removeprefix(f"jdbc:{DERBY}:")),)
        return (Path(self.url.partition("///")[2]),) if self.dialect == "sqlite" else ()

    @property
    def jars(self) -> tuple[Path, ...]:
        """Drivers, those of `lib` in the broker's instance."""
        if self.config is None:
            return ()
        etc = self.config.parent
        lib = (etc.parent if etc.name == "etc" else etc) / "lib"
        return tuple(lib / one for one in door.names_if_there(lib) if one.endswith(".jar"))

    @property
    def shown(self) -> str:
        """What people may see: the URL as it was given, without a password."""
        if self.dialect == "sqlite":
            return self.url
        if self.jdbc_url is not None:
            return without_passwords(self.jdbc_url)
        return without_passwords(f"{self.scheme or self.dialect}:{self.url.partition(':')[2]}")


class DatabaseStore(UnknownVersion):
    """A store that is kept in a database: whoever opens one catches this, and asks for what is derived."""

    identifier = "database-store"

    def __init__(self, settings: DatabaseSettings) -> None:
        super().__init__(settings.shown, "a store in a database", advice="this takes stores in files only")
        self.settings = settings


class _Element(Protocol):
    name: str
    text: str
    file: Path
    line: int
    attributes: dict[str, str]


_TEXTS: Final = {
    "message-table-name": "message_table",
    "bindings-table-name": "bindings_table",
    "large-message-table-name": "large_message_table",
    "page-store-table-name": "page_store_table",
    "node-manager-store-table-name": "node_manager_table",
}
_URL: Final = "jdbc-connection-url"
_CLASS: Final = "jdbc-driver-class-name"
_NUMBERS: Final = {
    "jdbc-network-timeout": "network_timeout_ms",
    "jdbc-lock-renew-period": "lock_renew_period_ms",
    "jdbc-lock-expiration": "lock_expiration_ms",
    "jdbc-lock-acquisition-timeout": "lock_acquisition_timeout_ms",
    "jdbc-allowed-time-diff": "allowed_time_diff_ms",
    "jdbc-journal-sync-period": "sync_period_ms",
}
_SIZES: Final = {"jdbc-max-page-size-bytes": "page_bytes_max", "jdbc-page-max-size-bytes": "page_bytes_max"}
_LEASE: Final = ("jdbc-lock-renew-period", "jdbc-lock-expiration")
_OF_POOL: Final = {"jdbc-user": "username", "jdbc-password": "password"}
"""Elements, and the properties that a broker takes instead."""
_PAGE_STORE_CHARS_MAX: Final = 10
"""Tables of pages have a number behind it."""
_TABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")


def database_named(path: Path | str, base: Path | None = None) -> DatabaseSettings | None:
    """The database that somebody gave where a path may stand; None for a path. Folders are looked for from
    `base` on.
    """
    text = os.fspath(path)
    found = _named().search(text)
    if found is None or os.path.lexists(text):
        return None
    scheme, rest = found[1].lower(), found[2]
    if scheme.endswith("sqlite"):
        file = rest.lstrip("/") if rest.startswith("//") and not rest.startswith("////") else rest
        file = file.partition("?")[0]  # what is behind it is for other drivers
        return DatabaseSettings(url=f"sqlite:///{os.path.abspath(unquote(file))}")
    if scheme.endswith(DERBY):
        return DatabaseSettings(url=f"{DERBY}://", jdbc_url=_derby(rest, base)) if "jdbc:" in scheme else None
    java = f"{scheme}:{re.sub('^(@?)/+', _TWO_SLASHES, rest)}" if scheme.startswith("jdbc:") else None
    return DatabaseSettings(url=_translated(scheme, rest), jdbc_url=java, scheme=found[1])


def _derby(rest: str, base: Path | None) -> str:
    """Where nothing is to be made by looking at it."""
    server = _SERVER.match(rest)
    place, *attributes = rest.removeprefix("directory:").split(";")
    if server is not None:
        place = "//" + server[1].partition(";")[0]
    else:
        place = os.path.abspath(Path(base or "") / place)
    kept = [one for one in attributes if one and not one.lower().startswith("create=")]
    return ";".join([f"jdbc:{DERBY}:{place}", *kept])


def kept_text(text: str) -> str:
    """A URL so that it means the same once it went through a path, which folds slashes: files are named from
    the root, and a login is encoded.
    """
    found = re.match(
        r"(sqlite:)//(?:/(?!/)|(?!/))(.*)$|(jdbc:derby:)([^/;].*)$", text, re.DOTALL | re.IGNORECASE
    )
    if found is not None:
        scheme, place = (found[1], found[2]) if found[1] else (found[3], found[4].removeprefix("directory:"))
        return f"{scheme}{os.path.abspath(place)}"
    named = _named().match(text)
    if named is None or not _of_place(named[1]) or os.path.lexists(text):
        return text
    place = _placed(named[2])
    database = "" if place.database is None else f"/{place.database}"
    parameters = f"?{place.parameters}" if place.parameters else ""
    login = "@" if place.login is None and not place.hosts else _login_text(place.login)
    return f"{named[1]}://{login}{place.hosts}{database}" + parameters.replace("//", "/%2F")


def without_passwords(text: str) -> str:
    """What may be shown of a text that has URLs."""
    return _PASSWORDS.sub(lambda one: f"{one[1]}{one[2]}@" if one[3] is None else f"{one[3]}***", text)


def password_spans(arguments: str) -> list[tuple[int, int]]:
    """Where passwords are in texts with NUL between."""
    return [found.span(found.lastindex or 0) for found in _TYPED_PASSWORDS.finditer(arguments)]


def other_scheme(path: Path | str) -> str | None:
    """What a path begins with that was meant for a URL of something that is not known here."""
    found = re.match(r"(jdbc:\w+|[a-z][\w+.-]+):/", os.path.relpath(path), re.IGNORECASE)
    return None if found is None or os.path.lexists(path) else found[1]


@dataclass(frozen=True, slots=True)
class _Placed:
    login: str | None
    hosts: str
    """With ports, and commas between."""
    database: str | None
    parameters: str


def _of_place(scheme: str) -> bool:
    """Whether a URL has what `_placed` finds."""
    return scheme.lower().removeprefix("jdbc:").partition("+")[0] in _SERVERS


def _placed(rest: str) -> _Placed:
    """What is behind the colon of a scheme."""
    if not rest.startswith("/") and "@" not in rest:  # a database of this machine, as Java has it
        rest = f"//localhost/{rest}"
    text = re.sub("^//?", "", rest)
    found = _PLACE.fullmatch(text)
    if found is None:  # whoever connects says what is wrong
        login, _, hosts = text.rpartition("@")
        return _Placed(login or None, hosts.partition("?")[0], None, "")
    return _Placed(found["login"], found["hosts"], found["database"], found["parameters"] or "")


def _login_text(login: str | None) -> str:
    if login is None:
        return ""
    user, colon, password = login.partition(":")
    return f"{quote(unquote(user), safe='')}{colon}{quote(unquote(password), safe='')}@"


def _translated(scheme: str, rest: str) -> str:
    """A URL of JDBC, or one of SQLAlchemy, as SQLAlchemy's. Raises `WrongCall`."""
    words = scheme.removeprefix("jdbc:").partition("+")
    dialect = f"{words[0]}+{words[2]}" if words[2] else DRIVERS[words[0].removesuffix(":thin")]
    if words[0].startswith("oracle"):
        return f"{dialect}://{rest.lstrip('@').lstrip('/')}"
    of_postgresql = dialect.startswith("postgresql")
    if not _of_place(scheme):
        text = rest.lstrip("/")
        return _semicolons(dialect, text) if ";" in text else f"{dialect}://{text}"
    if re.match(r"\w+:(?!\d)|/*address=", rest):
        raise WrongCall(f"{scheme}: {_ONE_SERVER}")
    place = _placed(rest)
    pairs = parse_qsl(place.parameters, keep_blank_values=True)
    given = dict(pairs)
    known = given if of_postgresql and not scheme.startswith("jdbc:") else _KEPT_WORDS
    kept = [one for one in pairs if one[0] in (*known, "host") and one[0] not in _LOGIN_WORDS | _SCHEMA_WORDS]
    hosts = place.hosts
    if "," in hosts or hosts.lower().startswith("%2f"):
        if not of_postgresql:
            raise WrongCall(f"{scheme}: {_ONE_SERVER}")
        kept, hosts = [*kept, *_host_words(hosts)], ""
    kept += [one for one in _tls_words(given, of_postgresql) if one[0] not in dict(kept)]
    if of_postgresql and (options := _options(given)):
        kept.append(("options", options))
    login = _login(given) or _login_text(place.login)
    database = "" if place.database is None else f"/{place.database}"
    return f"{dialect}://{login}{hosts}{database}" + (f"?{urlencode(kept)}" if kept else "")


def _host_words(hosts: str) -> list[tuple[str, str]]:
    """Several servers, or the folder of a socket, as PostgreSQL's library takes them."""
    found = [re.fullmatch(r"\[?(.*?)\]?(?::(\d+))?", one) for one in hosts.split(",")]
    pairs = [("host", ",".join(unquote(one[1]) for one in found if one))]
    ports = [one[2] or "" for one in found if one]
    return [*pairs, ("port", ",".join(ports))] if any(ports) else pairs


def _tls_words(given: Mapping[str, str], of_postgresql: bool) -> list[tuple[str, str]]:
    """What a driver of Java is told of encryption, which is never left out: `sslmode` of PostgreSQL."""
    said = {name.lower(): text.lower().replace("_", "-") for name, text in given.items()}
    on = any(said.get(name, "false") not in ("false", "0") for name in ("ssl", "usessl", "requiressl"))
    mode = said.get("sslmode", "")
    if not mode and on:
        trusts = "nonvalidating" in said.get("sslfactory", "") or said.get("trustservercertificate") == "true"
        verifies = of_postgresql or said.get("verifyservercertificate") == "true"
        mode = "verify-full" if verifies and not trusts else "require"
    return [("sslmode", _TLS_MODES.get(mode, mode))] if mode else []


def _options(given: Mapping[str, str]) -> str:
    """What PostgreSQL is told of the schemas to look for tables in."""
    said, schemas = given.get("options", ""), given.get("currentSchema")
    return said if schemas is None else f"{said} -csearch_path=" + re.sub(r"([\\\s])", r"\\\1", schemas)


def _semicolons(dialect: str, rest: str) -> str:
    """`host:port;databaseName=x;user=y` and `host:port/db:user=y;password=z;`."""
    place, _, parameters = rest.partition(";")
    if place.count(":") > 1:
        place, _, first = place.rpartition(":")
        parameters = f"{first};{parameters}"
    given = dict(one.split("=", 1) for one in parameters.split(";") if "=" in one)
    database = given.get("databaseName") or given.get("database")
    return f"{dialect}://{_login(given)}{place}" + (f"/{database}" if database else "")


def _login(given: Mapping[str, str]) -> str:
    user, password = given.get("user", given.get("username")), given.get("password")
    if user is None:
        return ""
    return quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}") + "@"


def database_settings(
    place: _Element,
    elements: Mapping[str, _Element],
    properties: Mapping[str, str],
    unmasked: Callable[[str], str],
) -> DatabaseSettings:
    """What a `database-store` says. `elements` are its children by name, `properties` the
    `data-source-properties`; `unmasked` decodes masked values. Raises `ConfigError`.
    """
    properties = {
        name: _unmasked(place, name, text, unmasked) if text.startswith("ENC(") else text
        for name, text in properties.items()
    }
    # A broker takes what its pool is told before what else is said.
    elements = {name: one for name, one in elements.items() if _OF_POOL.get(name) not in properties}
    said = elements.get(_URL, place)
    text = properties.get("url") or properties.get("jdbcUrl") or (said.text if said is not place else "")
    url = text if text.lower().startswith("jdbc:") else _unmasked(said, _URL, text, unmasked)
    schema = properties.get("defaultSchema") or properties.get("schema")
    if schema and ":postgresql:" in url:
        url += f"{'&' if '?' in url else '?'}currentSchema={quote(schema)}"
    folder = said.file.parent
    try:
        settings = database_named(url, folder.parent if folder.name == "etc" else folder)
    except WrongCall as error:
        raise _wrong(said, _URL, str(error)) from None
    if settings is None:
        shown = without_passwords(url.partition("?")[0]) or "nothing"
        reason = f"{shown} names no database that can be reached from here; see docs/use/database.md"
        raise _wrong(said, _URL, reason)
    return overruled(replace(settings, pool=dict(properties)), elements, unmasked)


def overruled(
    settings: DatabaseSettings, elements: Mapping[str, _Element], unmasked: Callable[[str], str]
) -> DatabaseSettings:
    """`settings` with what `elements` say but for the URL. Raises `ConfigError`."""
    named = {field: elements[name].text for name, field in _TEXTS.items() if name in elements}
    for name, field_name in _TEXTS.items():
        if field_name in named and not _TABLE_NAME.fullmatch(named[field_name]):
            raise _wrong(elements[name], name, f"{named[field_name]!r} cannot be the name of a table")
    login = {
        "user": _text(elements, "jdbc-user", unmasked) or settings.user or settings.pool.get("username"),
        "password": _text(elements, "jdbc-password", unmasked)
        or settings.password
        or settings.pool.get("password"),
    }
    if _CLASS in elements:
        settings = replace(settings, driver_class=elements[_CLASS].text or None)
    numbers = {field: _number(elements[name]) for name, field in _NUMBERS.items() if name in elements}
    for name, field_name in _SIZES.items():
        if name in elements:
            numbers[field_name] = _number(elements[name], parse_size_bytes, "size, as 102400 or 100K")
    if numbers.get("network_timeout_ms", 1) <= 0:
        del numbers["network_timeout_ms"]  # a broker would wait for ever
    said = {**settings.said, **{name: f"{one.file}:{one.line}" for name, one in elements.items()}}
    made = replace(settings, said=said, **named, **login, **numbers)  # type: ignore[arg-type]
    _refuse_contradictions(made, elements)
    return made


def _refuse_contradictions(settings: DatabaseSettings, elements: Mapping[str, _Element]) -> None:
    length, most = len(settings.page_store_table), _PAGE_STORE_CHARS_MAX
    if length > most:
        said = elements["page-store-table-name"]
        raise _wrong(said, said.name, f"{length} characters, and a broker starts with at most {most}")
    tables: dict[str, str] = {}
    for name, field_name in _TEXTS.items():
        table = str(getattr(settings, field_name)).lower()
        other = tables.setdefault(table, name)
        if other != name:
            said = elements.get(name) or elements[other]
            raise _wrong(said, said.name, f"{table} cannot be the table of both {other} and {name}")
    renewed_ms, lasts_ms = settings.lock_renew_period_ms, settings.lock_expiration_ms
    if not 0 < renewed_ms < lasts_ms:
        said = next(elements[name] for name in _LEASE if name in elements)
        reason = f"a lease of {lasts_ms} ms that is renewed each {renewed_ms} ms would run out"
        raise _wrong(said, said.name, reason)


def _text(elements: Mapping[str, _Element], name: str, unmasked: Callable[[str], str]) -> str | None:
    said = elements.get(name)
    return None if said is None or not said.text else _unmasked(said, name, said.text, unmasked)


def _unmasked(said: _Element, name: str, text: str, unmasked: Callable[[str], str]) -> str:
    try:
        return unmasked(text)
    except MaskedValueError as error:
        raise _wrong(said, name, str(error)) from error


def _number(element: _Element, parse: Callable[[str], int] = int, what: str = "number") -> int:
    try:
        return parse(element.text)
    except ValueError:
        raise _wrong(element, element.name, f"{element.text!r} is no {what}") from None


def _wrong(element: _Element, setting: str, reason: str) -> ConfigError:
    return ConfigError(element.file, reason, line=element.line, setting=setting)
