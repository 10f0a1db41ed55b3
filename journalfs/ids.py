"""Kinds of identifiers: all are integers, none may stand in for another."""

from __future__ import annotations

from typing import Final, NewType

MessageId = NewType("MessageId", int)
"""A message's 64-bit id; also the record id of its journal record and the name of its large body file."""

QueueId = NewType("QueueId", int)
"""Record id of a queue's binding; what references and page records name."""

AddressId = NewType("AddressId", int)
"""Record id of an address's binding. It changes when the address's routing types change."""

FileId = NewType("FileId", int)
"""Id in a journal file's header: the order of files. The number in the name says nothing."""

RID_MAX: Final = 0x7FFFFFFF


def rid_of(file_id: int) -> int:
    """What each record of a journal file repeats of the file's id: its low 31 bits."""
    return file_id & RID_MAX


PageNumber = NewType("PageNumber", int)
"""Number of a page file within its address's folder, from 1."""

TxId = NewType("TxId", int)
"""Transaction id, drawn from the same counter as record ids."""

RecordId = NewType("RecordId", int)
"""Record id within one journal. Updates and deletes carry the id of the record they change."""

Position = NewType("Position", int)
"""How many records were staged, counted from when the journal was opened: later ones are greater."""

Inode = NewType("Inode", int)
"""Inode number shown by the mount."""
