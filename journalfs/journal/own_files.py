"""Which files a journal went on in that this process writes itself: found without a look at all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from journalfs.ids import FileId
from journalfs.journal.files import FileSet, ReadFile
from journalfs.limits import OWN_FILES_LISTED_SHARE


@dataclass(slots=True)
class OwnFiles:
    """What is known of them. Whoever lists all files says so, by `unlisted`."""

    last: ReadFile | None = None
    """The file up to which everything was read."""
    unlisted: int = 0
    """How often the journal went on in another file since all were listed."""

    def up_to(
        self,
        file_id: FileId,
        newest_first: Iterable[tuple[FileId, str]],
        files: FileSet,
        opened: Callable[[FileId, str], ReadFile | None],
    ) -> list[ReadFile]:
        """The last file and those behind it, up to that id; none where all are to be listed: now and then
        they are, so that one that somebody took away is missed.

        `newest_first`: id and name of the files that are in use. `opened` opens one of those that is not
        known, where it is what its writer says.
        """
        last = self.last
        if last is None:
            return []
        if last.file.file_id == file_id:
            return [last]
        self.unlisted += 1
        if self.unlisted * OWN_FILES_LISTED_SHARE >= len(files):
            return []
        found: list[ReadFile] = []
        for number, name in newest_first:
            if number <= last.file.file_id:
                break
            if number <= file_id:
                read = files.of_id(number) or opened(number, name)
                if read is None or read.file.path.name != name:
                    return []
                found.append(read)
        if not found or found[0].file.file_id != file_id:
            return []
        return [last, *reversed(found)]
