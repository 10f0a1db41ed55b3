/* What staging messages has in common, whatever they are made of: a record for each, then a reference for each queue. */
#ifndef JFS_STAGE_MESSAGES_H
#define JFS_STAGE_MESSAGES_H

#include "bytes.h"
#include "jfs_stage.h"

enum { RECORD_MESSAGE = 45, RECORD_REFERENCE = 32 };

/* tx_id 0: a record of its own. */
static inline jfs_status stage_reference(jfs_stage *stage, jfs_ledger *ledger, int64_t tx_id, int64_t message_id,
                                         int64_t queue, jfs_batch_progress *progress) {
    const uint8_t kind = tx_id == 0 ? JFS_UPDATE : JFS_UPDATE_TX;
    uint8_t body[8];
    store_u64(body, (uint64_t)queue);
    progress->needed_bytes = jfs_record_bytes(kind, sizeof body);
    return jfs_stage_one(stage, ledger, kind, tx_id, message_id, RECORD_REFERENCE, body, sizeof body);
}

/* One of the `steps` records of a message was staged. */
static inline void step_staged(jfs_batch_progress *progress, uint32_t steps) {
    progress->records++;
    if (++progress->step == steps) {
        progress->step = 0;
        progress->message++;
    }
}

#endif
