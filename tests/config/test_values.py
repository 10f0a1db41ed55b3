"""Sizes, masked values and the values of single settings."""

from __future__ import annotations

import pytest
from Crypto.Cipher import Blowfish
from hypothesis import example, given
from hypothesis import strategies as st

from journalfs.config.address_settings import ADDRESS_SETTINGS, BY_NAME, Kind, accepts, parse_value
from journalfs.config.masked import KEY_VARIABLE, codec_key, is_masked, unmask
from journalfs.config.sizes import parse_size_bytes
from journalfs.errors import MaskedValueError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("10485760", 10_485_760),
        ("10M", 10_485_760),
        ("10m", 10_485_760),
        (" 10 MiB ", 10_485_760),
        ("10MB", 10_485_760),
        ("64K", 65_536),
        ("1G", 1_073_741_824),
        ("100b", 100),
        ("-1", -1),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "M", "1.5M", "-1M", "10T", "10 000", "0x10", "\u0661\u0660"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size_bytes(text)


def mask(text: str, key: str) -> str:
    """As `artemis mask` prints it."""
    plain = text.encode("utf-8")
    padding = 8 - len(plain) % 8
    raw_key = key.encode("utf-8")
    cipher = Blowfish.new(raw_key * (4 // len(raw_key) + 1), Blowfish.MODE_ECB)
    encrypted = cipher.encrypt(plain + bytes((padding,)) * padding)
    return f"ENC({int.from_bytes(encrypted, 'big', signed=True):x})"


@pytest.mark.parametrize(
    ("masked", "plain"),
    [
        ("ENC(-41e444c3ed07d6dd)", "secret"),
        ("-41e444c3ed07d6dd", "secret"),
        # Its first byte is FF and the second 80 or more: the broker itself cannot read this one back.
        ("ENC(-5545f9c548b089)", "p46"),
    ],
)
def test_masked_values_of_a_broker(masked: str, plain: str) -> None:
    assert unmask(masked) == plain


@given(
    st.text(max_size=40).filter(lambda text: text.isprintable()),
    st.text(st.characters(codec="ascii"), min_size=1, max_size=14),
)
@example("", "k")
@example("pässwörd", "key")
def test_masked_values_come_back(text: str, key: str) -> None:
    masked = mask(text, key)
    assert is_masked(masked)
    assert unmask(masked, key=key) == text


@pytest.mark.parametrize(
    "value", ["ENC()", "ENC(xyz)", "ENC(1024:AB:CD)", "secret", "ENC(00)", "ENC(-41e444c3ed07d6dc)"]
)
def test_what_cannot_be_unmasked(value: str) -> None:
    with pytest.raises(MaskedValueError) as caught:
        unmask(value)
    assert "secret" not in str(caught.value)
    assert "41e4" not in str(caught.value)


def test_wrong_key() -> None:
    with pytest.raises(MaskedValueError, match="is the key that of this broker"):
        unmask("ENC(-41e444c3ed07d6dd)", key="another key")
    with pytest.raises(MaskedValueError, match="1 to 56 bytes"):
        unmask("ENC(-41e444c3ed07d6dd)", key="k" * 57)


def test_where_the_key_comes_from() -> None:
    codec = "org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec"
    assert codec_key(None, {}) == "clusterpassword"
    assert codec_key(None, {KEY_VARIABLE: "mine"}) == "mine"
    assert codec_key(f"{codec};key=given;algorithm=two-way", {KEY_VARIABLE: "mine"}) == "given"
    with pytest.raises(MaskedValueError, match=r"com\.example\.Codec"):
        codec_key("com.example.Codec;key=x", {})


def test_plain_values_are_not_masked() -> None:
    assert not is_masked("secret")
    assert not is_masked("ENCODE(1)")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("max-size-bytes", "100K", 102_400),
        ("max-size-messages", "-1", -1),
        ("redelivery-delay-multiplier", "1.5", 1.5),
        ("auto-create-queues", "TRUE", True),
        ("auto-create-queues", "false", False),
        ("auto-create-queues", "1", False),
        ("dead-letter-address", " DLQ ", "DLQ"),
        ("address-full-policy", "FAIL", "FAIL"),
        # Brokers check none of these.
        ("max-delivery-attempts", "-5", -5),
        ("redelivery-delay", "-1", -1),
        ("redelivery-delay-multiplier", "-1", -1.0),
        ("max-size-bytes", "-9", -9),
        ("expiry-delay", "-7", -7),
        ("redelivery-collision-avoidance-factor", "1", 1.0),
        ("page-limit-bytes", "-1", -1),
        ("initial-queue-buffer-size", "16", 16),
    ],
)
def test_values(name: str, text: str, expected: object) -> None:
    assert parse_value(BY_NAME[name], text) == expected


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("max-size-messages", "10K", "'10K' is no number"),
        ("page-size-bytes", "0", "0 is below 1"),
        ("address-full-policy", "page", "'page' is none of PAGE, DROP, BLOCK, FAIL"),
        ("auto-create-queues", "yes", "'yes' is neither true nor false"),
        ("redelivery-delay-multiplier", "much", "'much' is no number"),
        ("page-size-bytes", "big", "'big' is no size"),
        ("redelivery-collision-avoidance-factor", "1.1", "1.1 is above 1"),
        ("redelivery-collision-avoidance-factor", "-0.1", "-0.1 is below 0"),
        ("page-limit-bytes", "0", "0 would be none at all; -1 is no limit"),
        ("page-limit-messages", "0", "0 would be none at all"),
        ("max-read-page-bytes", "0", "0 would be none at all"),
        ("max-read-page-messages", "0", "0 would be none at all"),
        ("prefetch-page-bytes", "0", "0 would be none at all"),
        ("prefetch-page-messages", "0", "0 would be none at all"),
        ("slow-consumer-threshold", "0", "0 would be none at all"),
        ("slow-consumer-threshold", "-2", "-2 is below -1"),
        ("initial-queue-buffer-size", "7", "7 is no power of two"),
        ("initial-queue-buffer-size", "1", "1 is below 2"),
    ],
)
def test_values_that_no_broker_takes(name: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_value(BY_NAME[name], text)


def test_every_default_is_a_value_of_its_setting() -> None:
    for definition in ADDRESS_SETTINGS:
        if definition.default is not None:
            assert accepts(definition, definition.default), definition.name
        if definition.derived is not None:
            other = BY_NAME[definition.derived[0]]
            assert other.kind in (Kind.BYTES, Kind.INTEGER)
            assert other.default is not None or other.derived is not None


def test_names_are_kebab_case_and_unique() -> None:
    names = [definition.name for definition in ADDRESS_SETTINGS]
    keys = [definition.json_key for definition in ADDRESS_SETTINGS]
    assert len(set(names)) == len(set(keys)) == len(names)
    assert all(name == name.lower() and "_" not in name for name in names)
