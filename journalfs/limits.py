"""Every bound in one place, each with the reason for its number."""

from __future__ import annotations

from typing import Final

NAME_BYTES_MAX: Final = 255
"""Longest file name Linux file systems and FUSE take (NAME_MAX)."""

PATH_BYTES_MAX: Final = 4095
"""Longest path that Linux takes in one call (PATH_MAX, without the zero at its end)."""

NAME_HASH_CHARS: Final = 16
"""Hexadecimal digits of a shortened name's hash: 64 bits, a million long names collide at 1 in 3e7."""

JOURNAL_HEADER_BYTES: Final = 16
"""A journal file's header; the first record cannot begin earlier."""

LENGTHENED_BYTES: Final = 64 * 1024
"""What a journal file is longer by that has a second name. A multiple of blocks and pages, and of what sizes
of journal files usually are."""

JOURNAL_FILE_BYTES_MAX: Final = 2**31 - 1
"""No broker writes further into a journal file: its positions there are 32-bit integers with a sign."""

HEADS_CHECKED_SHARE: Final = 16
"""One of so many journal headers is read again in every look, although the file's time says that it is the
same: each within three seconds, for file systems that lie about times."""

OWN_FILES_LISTED_SHARE: Final = 64
"""Who writes a journal lists all its files when it went on in another as often as a share of so many of them:
each time where there are few, and at a cost that does not grow where there are thousands."""

LOST_QUEUES_SHOWN_MAX: Final = 4096
"""Queues without bindings that are shown: each takes some kilobytes, and a record that names one 40 bytes."""

NOTE_BYTES_MAX: Final = 1024 * 1024
"""Longest text of our own about where something belongs."""

PERMISSIONS_BYTES_MAX: Final = 16 * 1024 * 1024
"""Longest file about permissions of addresses and queues: room for those of 100,000."""

LISTINGS_MAX: Final = 3
"""Times a directory is listed again because a file went between listing and opening; once is already rare."""

CONTROL_FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest compaction control file read. It lists names of about 30 bytes: room for half a million."""

RECORD_STRING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Longest string a bindings record may claim; real ones are far below. Stops a damaged length early."""

RECORD_ITEMS_MAX: Final = 1_000_000
"""Most entries a list in a bindings record may claim, whatever its count field says."""

BROKER_XML_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest configuration file parsed; the biggest seen in the field are below 2 MiB."""

BROKER_XML_ELEMENTS_MAX: Final = 200_000
"""Most elements of a configuration with all that it includes: some 60 MB of memory. 10,000 addresses with
settings of their own take a tenth of it."""

CONFIG_TEXT_CHARS_MAX: Final = 1024 * 1024
"""Longest text that `${...}` may grow to: properties that name each other double it at every step."""

UNKNOWN_PROPERTIES_TOLD_MAX: Final = 64
"""Names in `${...}` that nothing is known of and that are told, each once."""

TOML_BYTES_MAX: Final = 1024 * 1024
"""Largest journalfs.toml or `.settings`; settings for 10,000 addresses fit."""

TOML_NESTED_MAX: Final = 64
"""Most dots and brackets in a line of TOML that begins with a key or a table: what reads it takes memory and
time for each that is squared."""

BROKER_XML_DEPTH_MAX: Final = 64
"""Deepest nesting of elements; the schema needs 8."""

XINCLUDE_FILES_MAX: Final = 64
"""Most files one configuration may include, directly or not; stops includes that go in circles."""

ADDRESS_FILE_BYTES_MAX: Final = 64 * 1024
"""Longest `address.txt` of a page folder that is read; 16,384 characters fit in any encoding."""

ENCRYPTED_VALUE_CHARS_MAX: Final = 64 * 1024
"""Longest masked value decoded; a password is shorter, and hex parsing of huge numbers is slow."""

JOURNAL_FILES_MAPPED_MAX: Final = 16_384
"""Journal files mapped at once: a quarter of the mappings that Linux gives a process (vm.max_map_count)."""

SNAPSHOT_COPIED_BYTES_MAX: Final = 64 * 1024 * 1024
"""What making a snapshot copies at most: a journal file and a few pages of the usual size, in less than a
second on most disks."""

SNAPSHOT_TEXT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Longest description of a snapshot that is read: some hundred bytes for each journal file and page."""

COPY_CHUNK_BYTES: Final = 1024 * 1024
"""Piece in which files are copied or inflated: large enough that the calls cost nothing."""

HISTORY_EVENT_BYTES: Final = 10 * 1024
"""Piece in which the body of a large message goes into the journal for the history, as a broker's does."""

INFLATED_BODIES_KEPT_MAX: Final = 16
"""Inflated large bodies kept for further reads, about 10 MB each."""

INFLATED_LENGTHS_KEPT_MAX: Final = 65_536
"""How many files are remembered of which it was counted what they inflate to: 200 bytes each."""

LONG_BODY_BYTES: Final = 8 * 1024 * 1024
"""A place in a longer body is looked for in a thread: ten milliseconds."""

MEASURED_AT_ONCE_BYTES: Final = 16 * 1024 * 1024
"""Bodies in files that are measured where their messages are found: so much of all together, inflated, which
takes 20 ms, and 50 ms on a slow processor. The others wait until somebody asks for them, or nobody for
anything."""

INFLATE_FREELY_BYTES: Final = 64 * 1024 * 1024
"""What any compressed body may inflate to, however short it is."""

INFLATE_RATIO_MAX: Final = 200
"""How many times as long as it was a compressed body may become beyond that. Logs and tables become 20 times
as long; only what is as good as nothing reaches the 1,032 that the format can say."""

INFLATE_BYTES_MAX_DEFAULT: Final = 16 * 1024 * 1024 * 1024
"""`inflate-bytes-max`: what a compressed body may inflate to at most. To find out how long it is takes a
second for each gigabyte, of whoever asks for it."""

PAGE_FILE_BYTES_MAX: Final = 2**31 - 1
"""No broker writes further into a page: its positions there are 32-bit integers with a sign."""

PAGE_HOLE_BYTES_MIN: Final = 1024 * 1024
"""Shorter holes of a page are read as the zeros they stand for, so that a page has at most 2,048 of them."""

PAGE_DAMAGES_MAX: Final = 1000
"""Damaged places of one page that are listed one by one; what follows is listed as one."""

PAGE_BYTES_STAGED_MAX: Final = 1024 * 1024
"""What is published to pages is written whenever so much of it is staged, so that a large transaction takes
no memory."""

PAGE_PIECE_BYTES: Final = 256 * 1024
"""Records of pages that are made in one call, in a buffer that stays in the processor's cache."""

PAGE_RECORDS_KEPT_MAX: Final = 131_072
"""Records of scanned pages kept: 50 MB, a dozen pages of the default 10 MiB with messages of 1 KiB."""

EXPIRED_MESSAGES_MAX: Final = 250
"""Expired messages that leave a queue in one transaction, a quarter of a broker's: making their copies takes
a tenth of a second, in which nobody else is served."""

EXPIRED_BYTES_MAX: Final = 16 * 1024 * 1024
"""And at most so many bytes of records, which are in memory meanwhile; bodies in files are not."""

DERIVED_KEPT_S: Final = 30 * 24 * 3600
"""What was derived from an older store, and not opened for so long, is removed when another is derived."""

EVENTS_KEPT_MAX: Final = 10_000
"""Events kept for `.journalfs/events.jsonl`: about 2 MB of text; older ones are in the log."""

EAGER_PART_BYTES_MAX: Final = 64 * 1024 * 1024
"""Beside a live broker, files up to this size are rendered when opened. A part is at most half of it."""

PART_MESSAGES_MAX: Final = 65_536
"""Messages in one part."""

PART_BYTES_MAX: Final = 32 * 1024 * 1024
"""Size of one part: small enough to render in tens of milliseconds, large enough that Spark reads few files.
"""

OLDER_BODY_BYTES_MAX: Final = 256 * 1024 * 1024
"""Longest inflated body of a message of an older store."""

PART_NUMBER_MAX: Final = 2**32 - 2
"""Highest number of a part: one a second lasts for 136 years."""

SEALED_PARTS_BYTES: Final = 4 * 1024 * 1024
"""What the notes on parts may grow by, and twice what they were at first, before they are made anew."""

PART_NUMBERS_TAKEN: Final = 1024
"""Numbers of parts taken at once, which costs a sync; as many are lost when a process is killed."""

TAIL_WAIT_MS: Final = 10_000
"""Longest time a message stays in the tail before it gets a part."""

TAIL_IDLE_MS: Final = 1_000
"""A tail that got nothing new for this long becomes a part."""

FOLLOW_INTERVAL_S: Final = 0.2
"""Pause between two looks at a store that something else may be writing."""

DAMAGED_BYTES_SHOWN_MAX: Final = 64 * 1024 * 1024
"""Most raw bytes that one `damaged/*.bin` file gives; the file itself is in the store for more."""

INDEX_FILE_SLOTS_MAX: Final = 1_048_576
"""Journal files numbered since a store was first read, 16 bytes each; then it is read anew, from number 0."""

VIRTUAL_SIZES_KEPT_MAX: Final = 65_536
"""Sizes of record views kept: one for each journal or page file of a store of 640 GB."""

JOURNAL_WRITES_IN_FLIGHT_MAX: Final = 256
"""Writes under way at once, whatever `journal-max-io` says (brokers: 4,096): flushes are shared, so more
only take rings from the system's 65,536."""

JOURNAL_BLOCK_BYTES_DEFAULT: Final = 4096
"""Block of direct writes where the file system does not say."""

JOURNAL_BLOCK_BYTES_MAX: Final = 65_536
"""The largest block of direct writes: who follows a journal looks that far for what was appended."""

JOURNAL_BUFFER_BYTES_MIN: Final = 1024
"""The smallest buffer of a journal that is written, as of a journal file: below, the record of a message with
the 512 bytes that are spared for what is added to it does not fit.
"""

JOURNAL_BUFFERS_WAITING_MAX: Final = 64
"""Full write buffers that may wait for the disk before staging waits itself: 32 MB of the default size."""

INLINE_FLUSH_NS_MAX: Final = 1_000_000
"""The event loop writes and syncs itself while flushes take less than this on average: changing threads and
tasks costs a fifth of what a fast disk takes, and those who wait for the flush have nothing else to do."""

INLINE_FLUSH_BYTES_MAX: Final = 64 * 1024
"""No longer flush is left to the event loop: while the disk takes it, there is time for other work."""

CATCH_UP_BYTES_MIN: Final = 128 * 1024
"""What was published is taken over while the disk is busy from so many bytes on. Direct writes leave nothing
in the page cache: fewer bytes would be read from the disk again and again."""

TEXT_BATCHES_KEPT_MAX: Final = 1024
"""Addresses, or ways out of them, for which what all lines have in common is kept encoded."""

PIECE_RECORDS: Final = 4096
"""Records of a long change that are staged in one turn of the event loop: about a millisecond."""

SETTLED_OPERATIONS: Final = 16_384
"""Operations of a long transaction that is over which are settled in one such turn: a millisecond or two."""

PIECE_TEXTS: Final = 512
"""And lines or values of a long publication, each of which is two records or more: a millisecond or two."""

PIECE_NS: Final = 1_000_000
"""And how long such a turn lasts, where records take longer to make."""

PIECES_IN_FLIGHT_MAX: Final = 16
"""Pieces of a long change that may wait for the disk: some megabytes, and few enough flushes."""

PIECE_BYTES: Final = 256 * 1024
"""Bytes of lines that become records in one such turn."""

FRAMED_PIECE_MESSAGES: Final = 4096
"""Lines or values of a file that are told from each other in one such turn: about a millisecond."""

PARSED_PIECE_BYTES: Final = 1024
"""And bytes of envelopes, each of which is read by itself: the shortest take twenty microseconds."""

SHORT_FILES_BYTES: Final = 16 * 1024
"""Staged files that hold no more become messages in one turn."""

ROUTED_PIECE_MESSAGES: Final = 64
"""Messages of a long publication that are routed and staged one by one in one turn."""

STALL_NS: Final = 10_000_000
"""A flush that took this long shows a disk that stalls: the event loop does not wait for it itself."""

STALL_REMEMBERED_NS: Final = 250_000_000
"""After a stall flushes are left to threads for so long: at most four stalls a second hold the loop up.
Shared disks have one of ten milliseconds every second or so; a flush in a thread takes half as long again."""

LOOKS_AGAIN_MAX: Final = 3
"""Times an open starts over because a broker overwrote what was chosen; twice in a row was never seen."""

PUBLISHED_PIECE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Longest line or JSON value that becomes a message: it is held in memory until its end. A whole file has no
such bound."""

SPOOLED_IN_MEMORY_BYTES_MAX: Final = 256 * 1024
"""A file that becomes one message is kept in memory up to this size while it is written: above that it is a
large message, whose body goes to a file in any case."""

WHOLE_LINE_BYTES_MAX: Final = 1024 * 1024
"""A line of a stream that is not longer than this is rendered when it is its turn; of longer ones what is
read."""

SUPPLY_MESSAGES_MAX: Final = 16_384
"""Messages of a queue whose order of delivery is found at once: the queue is gone through once for each so
many that are taken from it."""
