/* What keeps journal files: which records are live, in which file each lies, and what each file cancels in others.
 * The counters are those of docs/format/records.md, "When a file is free".
 *
 * Fed with every record of a journal in replay order, first from its files and then as records are appended. Files
 * are numbers ("slots") given by the caller in ascending order of creation; the order of files is the caller's.
 */
#ifndef JFS_LEDGER_H
#define JFS_LEDGER_H

#include <stdint.h>

#include "jfs_scan.h"
#include "jfs_status.h"

typedef struct jfs_ledger jfs_ledger;

typedef struct {
    int64_t live_bytes;   /* of live adds and updates */
    int64_t positives;    /* what has to be cancelled before the file is free */
    uint64_t adds;        /* ADD records written into it, live or not */
    uint64_t replaceable; /* groups of updates that a later one of their kind replaces */
    uint64_t live_adds;   /* of those, live */
    int64_t open_bytes;   /* of adds and updates of transactions that have not ended */
} jfs_ledger_file;

typedef struct {
    uint32_t file;
    int64_t count; /* of records and transactions */
} jfs_ledger_cancelled;

typedef struct {
    int64_t tx_id;
    uint32_t operations;
    uint32_t counted; /* of them in the file of the newest */
    uint32_t counted_file;
    uint8_t prepared;
    uint8_t broken; /* its PREPARE counts records that are not there */
} jfs_ledger_tx;

typedef struct {
    uint64_t live_records;
    uint64_t open_transactions;
    uint64_t doubtful_transactions; /* that count for nothing, and keep the files they are in */
    uint64_t memory_bytes;
    int64_t id_max; /* highest record id seen, committed or not; -1: none */
    int64_t tx_id_max;
} jfs_ledger_counts;

jfs_status jfs_ledger_new(jfs_ledger **out);
void jfs_ledger_free(jfs_ledger *ledger);

/* What is wrong with the ledger as a whole; NULL: nothing. For tests and fuzzers: it takes time for every item. */
const char *jfs_ledger_check(const jfs_ledger *ledger);


/* Makes slot 0, 1, 2... */
jfs_status jfs_ledger_add_file(jfs_ledger *ledger, uint32_t *slot);

/* Forgets what others cancel in a file that is free now. */
void jfs_ledger_drop_file(jfs_ledger *ledger, uint32_t slot);

/* Bytes of the journal are lost: transactions of which a part is missing keep, from now on, the files they are in. */
void jfs_ledger_doubt(jfs_ledger *ledger);
int jfs_ledger_doubts(const jfs_ledger *ledger);

/* Ends a transaction as if it were rolled back, but for the files that it is in, which stay: what is lost may have
 * said that it is committed. JFS_ABSENT: it is not open.
 */
jfs_status jfs_ledger_abandon(jfs_ledger *ledger, int64_t tx_id);

/* Whether a record may be appended. JFS_ABSENT: it changes or ends what is not there; JFS_EXISTS: the id lives already
 * or the transaction is prepared already; JFS_HELD: an open transaction changes or deletes the record, or the
 * transaction is prepared and takes nothing more.
 */
jfs_status jfs_ledger_allows(jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id);

/* Records of the transaction that lie in the file: what PREPARE and COMMIT say when they are written there. */
uint32_t jfs_ledger_count(const jfs_ledger *ledger, int64_t tx_id, uint32_t slot);

/* Takes records of one file into account; tolerant, as a loader has to be. JFS_RANGE: no such file. JFS_NO_MEMORY: the
 * record that there was none for, and all behind it, were not counted; or jfs_ledger_failed() says that one was in part.
 */
jfs_status jfs_ledger_apply(jfs_ledger *ledger, uint32_t slot, const jfs_record *records, uint32_t count);

/* Whether the ledger says nothing any more: a record was counted in part. */
int jfs_ledger_failed(const jfs_ledger *ledger);

/* Does some of what the ends of long transactions left to do, for so many of their operations; each `apply` does a little
 * of it, and whoever asks for what it changes has all of it done. JFS_FULL: there is more.
 */
jfs_status jfs_ledger_settle(jfs_ledger *ledger, uint32_t operations);

/* The counters of some files, added up. JFS_RANGE: no such file. */
jfs_status jfs_ledger_sum(jfs_ledger *ledger, const uint32_t *slots, uint32_t count, jfs_ledger_file *out);

/* What one file cancels, by the file that it is in. *count is in how many files; JFS_FULL when room is less, JFS_RANGE:
 * no such file.
 */
jfs_status jfs_ledger_cancels(jfs_ledger *ledger, uint32_t in_slot, jfs_ledger_cancelled *out, uint32_t room,
                              uint32_t *count);

int jfs_ledger_is_live(jfs_ledger *ledger, int64_t record_id);

/* In how many queues a message is, as far as it was not acknowledged there; what is open does not count. */
int jfs_ledger_references(jfs_ledger *ledger, int64_t record_id);

void jfs_ledger_totals(const jfs_ledger *ledger, jfs_ledger_counts *out);

/* Which of the files, given in reading order without the current one, nothing needs any more: reclaimable[i] = 1.
 * JFS_RANGE: no such file.
 */
jfs_status jfs_ledger_reclaimable(jfs_ledger *ledger, const uint32_t *slots, uint32_t count,
                                  uint8_t *reclaimable);

/* Ids of live records, unsorted; ids of open transactions in order of appearance. *count is how many there are;
 * JFS_FULL when room is less.
 */
jfs_status jfs_ledger_live_ids(jfs_ledger *ledger, int64_t *out, uint64_t room, uint64_t *count);
jfs_status jfs_ledger_transactions(const jfs_ledger *ledger, jfs_ledger_tx *out, uint64_t room, uint64_t *count);

/* Those that count for nothing and keep their files, in order of their ends. As for live ids. */
jfs_status jfs_ledger_doubtful(const jfs_ledger *ledger, int64_t *out, uint64_t room, uint64_t *count);

/* The ledger as bytes, with `slots` as its files, which become 0, 1, 2...; *bytes is how many there are. JFS_HELD: a
 * transaction is open; JFS_RANGE: something live lies in another file; JFS_FULL: room is less.
 */
jfs_status jfs_ledger_save(jfs_ledger *ledger, const uint32_t *slots, uint32_t count, uint8_t *out, uint64_t room,
                           uint64_t *bytes);

/* JFS_MALFORMED: not what jfs_ledger_save() wrote of so many files. */
jfs_status jfs_ledger_load(const uint8_t *bytes, uint64_t size_bytes, uint32_t file_count, jfs_ledger **out);

#endif
