"""Decides who does the work for `journalfs.open`, and opens it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from journalfs.config.database import DatabaseStore, kept_text
from journalfs.config.layout import locate_store
from journalfs.errors import JournalfsError, ReadOnlyStore, SystemFailure, WrongCall, single
from journalfs.exchange.targets import mounted_store
from journalfs.python.backend import Backend
from journalfs.python.links import (
    Awaiting,
    Blocking,
    Direct,
    FromAsyncio,
    FromThreads,
    InLoop,
    InThreads,
    Owner,
    running_library,
)
from journalfs.python.mounts import mount_of, mount_of_store
from journalfs.store_owner import owner_of

if TYPE_CHECKING:
    from journalfs.python.mounted import MountedBackend
    from journalfs.python.own import OwnBackend
    from journalfs.store.store import JournalStore


class Opening:
    """What `journalfs.open` was asked for. Nothing is opened before one of its methods is called."""

    def __init__(self, path: str | Path, *, write: bool, through: str | None = None) -> None:
        """`through` is the URL of the broker that has the store, and makes all changes."""
        text = os.fspath(path)
        if not text or "\0" in text:
            raise WrongCall("an empty path" if not text else "no path can have a NUL in it")
        self.path = Path(kept_text(text))
        self.write = write
        self.through = through
        if write and through is not None:
            raise WrongCall("write=True takes the store away from its broker, and through= leaves it there")

    # -- which -----------------------------------------------------------------------------------------------

    def mounted(self) -> MountedBackend | None:
        """The mount that the path lies in, or that holds the store which is to be written."""
        from journalfs.python.mounted import MountedBackend  # noqa: PLC0415 - where there is a mount

        if self.through is not None:
            return None
        with suppress(OSError):  # a URL is no path
            root = mount_of(self.path)
            if root is not None:
                return self._in_mount(root)
        if not self.write:
            return None
        with suppress(JournalfsError, DatabaseStore):  # what is wrong with it is said when it is opened
            held = mount_of_store(locate_store(self.path, adopting=False).root)
            if held is not None:
                return MountedBackend(held)
        return None

    def _in_mount(self, root: Path) -> MountedBackend:
        from journalfs.python.mounted import MountedBackend  # noqa: PLC0415 - as above

        inside = Path(os.path.abspath(self.path)).relative_to(root).parts
        if not inside:
            return MountedBackend(root)
        kept = inside[:2] in ((".journalfs", "snapshots"), (".journalfs", "history"))
        if not kept or len(inside) != 3:
            raise WrongCall(
                f"{self.path}: lies in the mount {root}: open that, and name what is in it as "
                "store['address::queue']"
            )
        if self.write:
            raise ReadOnlyStore(f"{self.path}: this never changes; open {root} for writing")
        return MountedBackend(Path(os.path.abspath(self.path)), moment=True)

    def readable(self) -> tuple[Path, Callable[[], None]]:
        """The path of the store in files, or the URL, to be read; and what is to be called in the end."""
        from journalfs.backup.backups import Backups  # noqa: PLC0415 - few open one

        backups = Backups.found(str(self.path))
        if backups is None:
            return mounted_store(self.path) or self.path, lambda: None
        folder = tempfile.mkdtemp(prefix="journalfs-")
        try:
            backups.restore(Path(folder) / "store", None)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return Path(folder) / "store", lambda: shutil.rmtree(folder, ignore_errors=True)

    # -- opening it ------------------------------------------------------------------------------------------

    def read(self) -> tuple[JournalStore, Callable[[], None]]:
        """The store, opened for reading; and what closes it."""
        from journalfs.store import open_store  # noqa: PLC0415 - takes long

        path, then = self.readable()
        try:
            store = open_store(path, index=not self._is_of_another(path))
        except BaseException:
            then()
            raise

        def close() -> None:
            try:
                store.close()
            finally:
                then()

        return store, close

    def _is_of_another(self, path: Path) -> bool:
        """Whether root would leave files of its own in another user's store."""
        if os.geteuid() != 0:
            return False
        try:
            return owner_of([locate_store(path, adopting=False).root]) is not None
        except (JournalfsError, DatabaseStore):
            return False

    async def serve(self, told: Callable[[OwnBackend], None]) -> None:
        """Open the store, tell of it, and do its own work until cancelled; then close it."""
        import trio  # noqa: PLC0415 - takes long

        from journalfs.python.own import OwnBackend  # noqa: PLC0415 - takes long

        store, close = self._written() if self.write else self.read()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.run if self.write else store.follow)  # type: ignore[attr-defined]
                if self.through is None:
                    told(OwnBackend(str(self.path), store))
                else:
                    from journalfs.python.through import ThroughBackend  # noqa: PLC0415 - few do
                    from journalfs.through.opening import broker_of  # noqa: PLC0415 - few do

                    broker = broker_of(self.through, store)
                    await nursery.start(broker.run)
                    told(ThroughBackend(str(self.path), store, broker))
                await trio.sleep_forever()
        finally:
            close()

    def _written(self) -> tuple[JournalStore, Callable[[], None]]:
        from journalfs.backup.backups import Backups  # noqa: PLC0415 - few open one
        from journalfs.store.write.opening import open_for_writing  # noqa: PLC0415 - takes long

        if Backups.found(str(self.path)) is not None:
            raise ReadOnlyStore(f"{self.path}: a backup never changes; journalfs restore makes a store of it")
        if self._is_of_another(self.path):
            raise SystemFailure(
                f"{self.path}: is another user's, who could not use what root writes; run this as that user"
            )
        store = open_for_writing(self.path)
        return store, store.close

    def blocking(self) -> tuple[Backend, Blocking, Callable[[], None]]:
        """Who does the work for callers that block, and what closes it."""
        mounted = self.mounted()
        if mounted is not None:
            return mounted, Direct(), lambda: None
        found: list[OwnBackend] = []

        async def serve(ready: Callable[[], None]) -> None:
            def told(backend: OwnBackend) -> None:
                found.append(backend)
                ready()

            await self.serve(told)

        owner = Owner(serve)
        owner.start()
        return found[0], FromThreads(owner), owner.stop

    async def awaiting(self) -> tuple[Backend, Awaiting, Callable[[BaseException | None], Awaitable[None]]]:
        """The same for callers that await."""
        library = running_library()
        mounted = self.mounted()
        if mounted is not None:

            async def nothing(error: BaseException | None) -> None:
                """Nothing is open."""

            return mounted, InThreads(), nothing
        if library == "trio":
            return await self._in_loop()
        import anyio.to_thread  # noqa: PLC0415 - an optional library

        backend, _, stop = await anyio.to_thread.run_sync(self.blocking)
        owner = stop.__self__  # type: ignore[attr-defined]

        async def close(error: BaseException | None) -> None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(stop)

        return backend, FromAsyncio(owner), close

    async def _in_loop(self) -> tuple[Backend, Awaiting, Callable[[BaseException | None], Awaitable[None]]]:
        import trio  # noqa: PLC0415 - who awaits under it has it

        manager = trio.open_nursery()
        nursery = await manager.__aenter__()

        async def serve(*, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            await self.serve(task_status.started)

        async def close(error: BaseException | None) -> None:
            nursery.cancel_scope.cancel()
            kind: type[BaseException] | None = None if error is None else type(error)
            trace: TracebackType | None = None if error is None else error.__traceback__
            try:
                await manager.__aexit__(kind, error, trace)
            except BaseExceptionGroup as group:
                found = single(group)
                if found is error:
                    return  # it is raised by the block itself
                raise found from None

        try:
            backend = await nursery.start(serve)
        except BaseException as error:
            await close(error)
            raise
        return backend, InLoop(), close
