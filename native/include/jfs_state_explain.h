/* What of a live state lies in one journal file: for whoever asks why the file cannot be set free. */
#ifndef JFS_STATE_EXPLAIN_H
#define JFS_STATE_EXPLAIN_H

#include <stdint.h>

#include "jfs_state.h"
#include "jfs_status.h"

/* Messages of one queue whose records lie in the file. */
typedef struct {
    int64_t queue_id;
    int64_t oldest_ms;   /* earliest timestamp; 0: none has one */
    uint64_t body_bytes; /* of their records' bodies */
    uint32_t messages;
    uint32_t delivering; /* of these, acknowledged by a prepared transaction */
} jfs_queue_share;

/* Queues that have any, in order of their slots. `referenced` are messages in the file that any
 * queue has. */
jfs_status jfs_state_explain_queues(const jfs_state *state, uint32_t file_slot, jfs_queue_share *out,
                                    uint32_t capacity, uint32_t *count, uint32_t *referenced);

/* Live records in the file that are no messages, by user type as an unsigned byte. */
enum { JFS_USER_TYPES = 256 };
void jfs_state_explain_others(const jfs_state *state, uint32_t file_slot, uint32_t *by_type);

/* An open transaction with records in the file. */
typedef struct {
    int64_t tx_id;
    uint32_t operations; /* in the file */
    uint8_t flags;       /* JFS_TX_* */
} jfs_tx_share;

jfs_status jfs_state_explain_txs(const jfs_state *state, uint32_t file_slot, jfs_tx_share *out, uint32_t capacity,
                                 uint32_t *count);

#endif
