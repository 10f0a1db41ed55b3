"""Records of the bindings journal that are read and kept, and never written, in the current layout."""

from __future__ import annotations

from journalfs.format.bindings import (
    Divert,
    Group,
    Roles,
    Transformer,
    User,
)
from journalfs.format.primitives import (
    boolean,
    i8,
    i32,
    nullable_string,
    simple_string,
    string,
)


def encode_group(group: Group) -> bytes:
    """Type 20."""
    return simple_string(group.group_id) + simple_string(group.cluster)


def encode_divert(divert: Divert) -> bytes:
    """Type 27."""
    return b"".join(
        (
            nullable_string(divert.name),
            nullable_string(divert.address),
            nullable_string(divert.forwarding_address),
            nullable_string(divert.routing_name),
            boolean(divert.exclusive),
            nullable_string(divert.filter),
            i8(divert.routing_type.value),
            _transformer(divert.transformer),
        )
    )


def encode_user(user: User) -> bytes:
    """Type 47."""
    return string(user.name) + string(user.password)


def encode_roles(roles: Roles) -> bytes:
    """Type 48."""
    return string(roles.user) + i32(len(roles.roles)) + b"".join(map(string, roles.roles))


def _transformer(transformer: Transformer | None) -> bytes:
    if transformer is None:
        return nullable_string(None)
    entries = b"".join(
        nullable_string(key) + nullable_string(value) for key, value in transformer.properties.items()
    )
    return nullable_string(transformer.class_name) + i32(len(transformer.properties)) + entries
