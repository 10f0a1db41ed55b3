/* Staging records that differ in their ids alone. */
#include "jfs_stage_ids.h"

#include <stddef.h>

jfs_status jfs_stage_updates(jfs_stage *stage, jfs_ledger *ledger, int64_t tx_id, int8_t user_type, const uint8_t *body,
                             uint32_t body_bytes, const int64_t *ids, uint32_t count, uint32_t *done) {
    for (; *done < count; ++*done) {
        const jfs_status status =
            jfs_stage_one(stage, ledger, JFS_UPDATE_TX, tx_id, ids[*done], user_type, body, body_bytes);
        if (status != JFS_OK) return status;
    }
    return JFS_OK;
}

jfs_status jfs_stage_deletes(jfs_stage *stage, jfs_ledger *ledger, const int64_t *ids, uint32_t count, uint8_t *staged,
                             uint32_t *done, uint32_t *records) {
    *records = 0;
    for (; *done < count; ++*done) {
        const int referenced = jfs_ledger_references(ledger, ids[*done]) > 0;
        const jfs_status status =
            referenced ? JFS_HELD : jfs_stage_one(stage, ledger, JFS_DELETE, 0, ids[*done], 0, NULL, 0);
        if (status != JFS_OK && status != JFS_ABSENT && status != JFS_HELD) return status;
        staged[*done] = status == JFS_OK;
        *records += status == JFS_OK;
    }
    return JFS_OK;
}
