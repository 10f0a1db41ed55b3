"""Where a broker is, and who asks it: `amqp://user@host:5672`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from journalfs.errors import WrongCall

PORTS: Final = {"amqp": 5672, "amqps": 5671}
PASSWORD_VARIABLE: Final = "JOURNALFS_BROKER_PASSWORD"
PASSWORD_FILE_VARIABLE: Final = "JOURNALFS_BROKER_PASSWORD_FILE"


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """Of a broker that speaks AMQP 1.0."""

    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    encrypted: bool = False

    @classmethod
    def parse(cls, text: str, environment: dict[str, str] | None = None) -> BrokerUrl:
        """Raises `WrongCall`. The password comes from the environment: others see command lines."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise WrongCall(f"{text}: {error}; give amqp://USER@HOST:PORT") from None
        if parts.scheme not in PORTS or not parts.hostname:
            raise WrongCall(f"{text}: no broker's URL; give amqp://USER@HOST:PORT, or amqps:// for TLS")
        if parts.password is not None:
            raise WrongCall(
                f"{parts.scheme}://{parts.username}@{parts.hostname}: a password in a URL is seen by "
                f"everybody who lists processes; put it into the variable {PASSWORD_VARIABLE}, or its file's "
                f"name into {PASSWORD_FILE_VARIABLE}"
            )
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise WrongCall(f"{text}: nothing follows the port of a broker's URL")
        user = None if parts.username is None else unquote(parts.username)
        password = (
            None if user is None else _password(dict(os.environ) if environment is None else environment)
        )
        return cls(parts.hostname, port or PORTS[parts.scheme], user, password, parts.scheme == "amqps")

    def __str__(self) -> str:
        """Without its password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = "" if self.user is None else f"{self.user}@"
        return f"amqp{'s' * self.encrypted}://{user}{host}:{self.port}"


def _password(environment: dict[str, str]) -> str:
    given, file = environment.get(PASSWORD_VARIABLE), environment.get(PASSWORD_FILE_VARIABLE)
    if given is not None:
        return given
    if file is None:
        raise WrongCall(
            f"there is no password for the broker: put it into the variable {PASSWORD_VARIABLE}, or its "
            f"file's name into {PASSWORD_FILE_VARIABLE}"
        )
    try:
        return Path(file).read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongCall(f"{file}: the broker's password cannot be read from it: {error}") from None
