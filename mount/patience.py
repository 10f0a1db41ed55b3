"""How those who publish wait for room in a full address."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Final

from journalfs_mount.errnos import refuse


class Impatient:
    """The patience of who does not wait."""

    async def wait(self, until: Callable[[], Awaitable[None]]) -> None:
        raise refuse(errno.EAGAIN)


IMPATIENT: Final = Impatient()
