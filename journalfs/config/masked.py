"""Masked values of a broker's configuration: `ENC(...)`, as the broker's default two-way codec writes them.

The codec is Blowfish in ECB mode with PKCS #5 padding, the result printed as a signed hexadecimal number.
Blowfish comes from PyCryptodome, an optional dependency: only configurations with masked passwords need it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from journalfs import limits
from journalfs.errors import DependencyMissing, MaskedValueError

KEY_VARIABLE: Final = "ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY"
DEFAULT_KEY: Final = "clusterpassword"

_MASK: Final = re.compile(r"\s*ENC\((.*)\)\s*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9a-fA-F]+")
_BLOCK_BYTES: Final = 8
_KEY_BYTES_MIN: Final = 4
_KEY_BYTES_MAX: Final = 56


def is_masked(value: str) -> bool:
    return _MASK.fullmatch(value) is not None


def unmask_if_masked(text: str, *, key: str, always: bool = False) -> str:
    """The text behind `ENC(...)`, any other as it is; `always`: behind the bare number, too."""
    return unmask(text, key=key) if always or is_masked(text) else text


def codec_key(codec: str | None, environment: Mapping[str, str]) -> str:
    """The key in force: of `<password-codec>` (`class;key=...`), else the environment's, else the default.

    Raises `MaskedValueError` for a codec class other than the broker's own.
    """
    class_name, *parameters = (codec or "").split(";")
    if class_name.strip() and not class_name.strip().endswith("DefaultSensitiveStringCodec"):
        raise MaskedValueError(
            f"password-codec {class_name.strip()} is not the broker's own and cannot be used here"
        )
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "key":
            return value.strip()
    return environment.get(KEY_VARIABLE) or DEFAULT_KEY


def unmask(value: str, *, key: str = DEFAULT_KEY) -> str:
    """The text behind `ENC(...)` or behind the bare number. No message of a failure repeats the value.

    Raises `MaskedValueError` when it is not decodable with `key`, `DependencyMissing` without PyCryptodome.
    """
    match = _MASK.fullmatch(value)
    number = (match.group(1) if match else value).strip()
    if len(number) > limits.ENCRYPTED_VALUE_CHARS_MAX or not _NUMBER.fullmatch(number):
        if number.count(":") == 2:
            raise MaskedValueError(
                "a one-way hash (iterations:salt:hash) cannot be turned back into a password"
            )
        raise MaskedValueError(
            "a masked value must be ENC(<hexadecimal number>); make one with 'artemis mask'"
        )
    return _decrypt(_number_bytes(number), key)


def _number_bytes(number: str) -> bytes:
    # The broker prints the cipher text as a signed number, which drops leading sign bytes: extend it to
    # whole blocks.
    value = int(number, 16)
    # Bits of the two's complement form with its sign: -256 needs 9.
    bits = (value if value >= 0 else ~value).bit_length() + 1
    blocks = -(-bits // (8 * _BLOCK_BYTES))
    return value.to_bytes(blocks * _BLOCK_BYTES, "big", signed=True)


def _decrypt(data: bytes, key: str) -> str:
    try:
        from Crypto.Cipher import Blowfish  # noqa: PLC0415 (optional: most configurations mask nothing)
    except ImportError as error:
        raise DependencyMissing(
            "reading a masked password", package="pycryptodome", install="pip install 'journalfs[masked]'"
        ) from error
    raw_key = key.encode("utf-8")
    if not raw_key or len(raw_key) > _KEY_BYTES_MAX:
        raise MaskedValueError(
            f"the codec's key must have 1 to {_KEY_BYTES_MAX} bytes, it has {len(raw_key)}"
        )
    # Blowfish uses its key cyclically, so repeating a short one changes nothing but satisfies the library.
    while len(raw_key) < _KEY_BYTES_MIN:
        raw_key += raw_key
    plain = Blowfish.new(raw_key, Blowfish.MODE_ECB).decrypt(data)
    padding = plain[-1]
    if not 1 <= padding <= _BLOCK_BYTES or plain[-padding:] != bytes((padding,)) * padding:
        raise MaskedValueError(
            "the masked value does not fit the codec's key; is the key that of this broker?"
        )
    try:
        return plain[:-padding].decode("utf-8")
    except UnicodeDecodeError as error:
        raise MaskedValueError(
            "the masked value does not decode to text; is the key that of this broker?"
        ) from error
