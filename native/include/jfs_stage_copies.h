/* Copies of core messages for a queue of another address, many at once, from record to record. */
#ifndef JFS_STAGE_COPIES_H
#define JFS_STAGE_COPIES_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_stage.h"

/* What becomes of the properties that say where a message comes from. */
enum {
    JFS_NOTES_MADE = 0, /* they say what the copy is of */
    JFS_NOTES_TAKEN = 1, /* it goes back to where they say that it comes from */
    JFS_NOTES_KEPT = 2   /* it is the same message once more */
};

/* What copies that are staged together have in common. Encoded fields are as a message's record has them. */
typedef struct {
    const uint8_t *address;    /* where they are sent to, a nullable SimpleString */
    const uint8_t *queue_name; /* of the queue they are copied from, a SimpleString */
    int64_t queue;             /* that gets them */
    int64_t tx_id;
    uint32_t address_bytes;
    uint32_t queue_name_bytes;
    uint32_t body_bytes_max;    /* longest body that belongs in a record */
    uint32_t message_bytes_max; /* longest message that does */
    uint8_t notes;              /* JFS_NOTES_* */
} jfs_copies;

/* How many messages from the first one on are as it is: `possible` for jfs_stage_copies, or not. Those are whole, small,
 * durable, have an address, are due, and do not say when they are.
 */
jfs_status jfs_copies_alike(const jfs_copies *copies, const jfs_line *lines, uint32_t count, int *possible,
                            uint32_t *alike);

/* Stages an ADD and an UPDATE for the queue for every message, as parts of the transaction: each is what it was but for
 * its id, that counts up from first_id, its address, and the properties that say what it is a copy of, ids[i]. Where
 * they are taken away, the routing type and expiration are as before. Goes on where `progress`, zeroed before the first call, says. JFS_FULL: make room and call again. JFS_TORN: its file was cut,
 * JFS_MALFORMED: it is no core message; else as jfs_stage_one says.
 */
jfs_status jfs_stage_copies(jfs_stage *stage, jfs_ledger *ledger, const jfs_copies *copies, const jfs_line *lines,
                            const int64_t *ids, uint32_t count, int64_t first_id, jfs_batch_progress *progress);

#endif
