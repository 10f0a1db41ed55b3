/* Records that differ in the id they are about alone, many at once. */
#ifndef JFS_STAGE_IDS_H
#define JFS_STAGE_IDS_H

#include <stdint.h>

#include "jfs_stage.h"

/* Stages an update in a transaction for every id from *done on, which then says how far it came. JFS_FULL: make room
 * and call again. Else as jfs_stage_one says of ids[*done].
 */
jfs_status jfs_stage_updates(jfs_stage *stage, jfs_ledger *ledger, int64_t tx_id, int8_t user_type, const uint8_t *body,
                             uint32_t body_bytes, const int64_t *ids, uint32_t count, uint32_t *done);

/* The same with deletes of messages, outside of transactions. What may not be deleted, because it is not there, an open
 * transaction changes it or a queue has it, is passed over: staged[i] is 1 for those that were staged, and *records
 * counts them.
 */
jfs_status jfs_stage_deletes(jfs_stage *stage, jfs_ledger *ledger, const int64_t *ids, uint32_t count, uint8_t *staged,
                             uint32_t *done, uint32_t *records);

#endif
