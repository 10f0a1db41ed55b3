/* Text messages, many at once, straight from UTF-8 into the records of a write buffer. */
#ifndef JFS_STAGE_TEXTS_H
#define JFS_STAGE_TEXTS_H

#include <stdint.h>

#include "jfs_publish.h"
#include "jfs_stage.h"

/* What messages that are staged together have in common. Encoded fields are as a message's record has them. */
typedef struct {
    const uint8_t *address;    /* a nullable SimpleString */
    const uint8_t *properties; /* with the mark of presence */
    const int64_t *every;      /* queues that get each message */
    const int64_t *in_turn;    /* queues of which each message gets one */
    uint64_t turn;             /* which one the first message gets, modulo their number */
    int64_t first_id;          /* the messages' ids count up from here */
    int64_t tx_id;             /* 0: records of their own */
    int64_t timestamp_ms;
    int64_t expiration_ms;     /* 0: never */
    uint64_t user_id_step;     /* of the first message's user id, a time-based UUID; they count up, too */
    uint32_t address_bytes;
    uint32_t properties_bytes;
    uint32_t every_count;
    uint32_t in_turn_count;
    uint32_t body_bytes_max;   /* longest body that belongs in a record */
    uint32_t record_bytes_max; /* longest record */
    uint8_t user_id_node[8];
} jfs_text_batch;

/* Stages an ADD and an UPDATE for each queue for every stretch, as parts of the transaction if there is one; goes on
 * where `progress`, zeroed before the first call, says. A text that is no UTF-8 becomes a message of bytes.
 * JFS_FULL: make room and call again. JFS_RANGE: a text is too long, nothing was staged; only the first call says so,
 * and it may say so of one that is not but has many bytes for few characters. Else as jfs_stage_one.
 */
jfs_status jfs_stage_texts(jfs_stage *stage, jfs_ledger *ledger, const jfs_text_batch *batch, const uint8_t *bytes,
                           const jfs_stretch *texts, uint32_t count, jfs_batch_progress *progress);

#endif
