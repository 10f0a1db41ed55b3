/* Inside of the ledger: ledger_live.c (live records), ledger_tx.c (transactions), ledger_files.c (files), and
 * ledger.c, which applies records to all of them.
 */
#ifndef JFS_LEDGER_INTERNAL_H
#define JFS_LEDGER_INTERNAL_H

#include "index.h"
#include "jfs_assert.h"
#include "jfs_ledger.h"

#define NONE UINT32_MAX

enum {
    LIVE_PENDING = 1,
    LIVE_DOOMED = 2,
    LIVE_LEFTOVER = 4 /* not a record, but updates of one that is not there */
};

/* A live record, or one that an open transaction added. The key comes first, for the index. */
typedef struct {
    int64_t id;
    uint32_t add_file;
    uint32_t add_bytes;
    uint32_t last_file;  /* of the newest group of updates: consecutive ones in one file */
    uint32_t last_count; /* 0: never updated */
    uint32_t last_bytes;
    uint32_t older;      /* groups before it; a free entry: the next free one */
    uint32_t held;       /* updates in open transactions; pending: the transaction's number */
    int16_t references;  /* queues that were given a message, less acknowledgements */
    uint8_t flags;
    uint8_t used;
} live_entry;

typedef struct {
    uint32_t file;
    uint32_t count;
    uint32_t bytes;
    uint32_t next;
} update_group;

typedef struct {
    jfs_ledger_file counters;
    jfs_ledger_cancelled *negatives;
    uint32_t negative_count;
    uint32_t negative_room;
} file_entry;

typedef struct {
    int64_t id;
    uint32_t file;
    uint32_t bytes;
    uint8_t kind;
    int8_t user_type;
    uint8_t holds; /* counted in the record's `held` */
    uint32_t entry; /* where its live entry was, NONE: there was none */
} tx_operation;

typedef struct {
    int64_t id;
    tx_operation *operations;
    uint32_t *touched;
    uint32_t operation_count;
    uint32_t operation_room;
    uint32_t touched_count;
    uint32_t touched_room;
    uint32_t counted_file;
    uint32_t counted;
    uint64_t sequence; /* order of first appearance */
    uint32_t settled;  /* operations that are, of one that has ended */
    uint32_t next_ended;
    uint8_t prepared;
    uint8_t broken;
    uint8_t claims;    /* it changes records that there were */
    uint8_t committed;
    uint8_t ended;     /* no longer open: what it does is still being settled */
    uint8_t used;
} tx_entry;

struct jfs_ledger {
    live_entry *live;
    uint32_t live_count; /* entries handed out, free ones included */
    uint32_t live_room;
    uint32_t live_free;
    item_index live_index;
    update_group *groups;
    uint32_t group_count;
    uint32_t group_room;
    uint32_t group_free;
    tx_entry *txs;
    uint32_t tx_count;
    uint32_t tx_room;
    item_index tx_index;
    uint32_t first_ended; /* long transactions that ended, in this order, to be settled bit by bit */
    uint32_t last_ended;
    uint32_t ended_claims; /* those of them with claims */
    uint64_t tx_sequence;
    file_entry *files;
    uint32_t file_count;
    uint32_t file_room;
    uint64_t live_records;
    int64_t *doubtful; /* transactions that keep their files for good */
    uint32_t doubtful_count;
    uint32_t doubtful_room;
    uint8_t doubts;    /* bytes of the journal are lost */
    uint8_t failed;    /* memory ran out: it says nothing any more */
    int64_t id_max;
    int64_t tx_id_max;
};

/* Doubles an array of `stride`-byte items when it is full. */
jfs_status ledger_grow(void **items, uint32_t count, uint32_t *room, size_t stride);

/* Makes room for `more` items behind the first `count`. */
jfs_status ledger_room(void **items, uint32_t count, uint32_t *room, size_t stride, uint64_t more);

/* The entry with this id; NULL if there is none. `find` settles ended transactions first that may still change it,
 * `find_now` does not, and `find_any` also finds the leftovers of records that are not there.
 */
live_entry *ledger_find(jfs_ledger *ledger, int64_t id);
live_entry *ledger_find_now(const jfs_ledger *ledger, int64_t id);
live_entry *ledger_find_any(const jfs_ledger *ledger, int64_t id);
tx_entry *ledger_find_tx(const jfs_ledger *ledger, int64_t tx_id);

/* Effects of records that count, in the file where they lie. */
jfs_status ledger_add(jfs_ledger *ledger, uint32_t slot, int64_t id, uint32_t bytes, live_entry **out);
jfs_status ledger_settle_add(jfs_ledger *ledger, live_entry *entry);
jfs_status ledger_update(jfs_ledger *ledger, uint32_t slot, live_entry *entry, uint32_t bytes, int8_t user_type,
                         int replaces);
jfs_status ledger_delete(jfs_ledger *ledger, uint32_t slot, live_entry *entry);
void ledger_forget(jfs_ledger *ledger, live_entry *entry);
uint32_t ledger_cancelled_by(const jfs_ledger *ledger, const live_entry *entry); /* files at most, if it is deleted */

/* Updates of a record that is not there: its file was set free or compacted after it had been deleted. They keep
   no file, but their delete has to outlive them: without it they would tell of a record that is lost. */
jfs_status ledger_update_leftover(jfs_ledger *ledger, uint32_t slot, int64_t id);
jfs_status ledger_delete_leftover(jfs_ledger *ledger, uint32_t slot, int64_t id);

jfs_status ledger_negative(jfs_ledger *ledger, uint32_t in_slot, uint32_t of_slot, int64_t count);

/* Before anybody is told what long transactions that ended may have changed. */
void ledger_settle_all(jfs_ledger *ledger);

jfs_status ledger_tx_record(jfs_ledger *ledger, uint32_t slot, const jfs_record *record);
jfs_status ledger_tx_check(jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id);
void ledger_tx_free_all(jfs_ledger *ledger);
/* What the end of a transaction may need, as long as it is counted at once: files that it cancels in, and groups. */
void ledger_tx_needs(const jfs_ledger *ledger, int64_t tx_id, uint64_t *cancelled, uint64_t *groups);

#endif
