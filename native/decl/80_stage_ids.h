jfs_status jfs_stage_updates(jfs_stage *stage, jfs_ledger *ledger, int64_t tx_id, int8_t user_type, const uint8_t *body,
                             uint32_t body_bytes, const int64_t *ids, uint32_t count, uint32_t *done);

jfs_status jfs_stage_deletes(jfs_stage *stage, jfs_ledger *ledger, const int64_t *ids, uint32_t count, uint8_t *staged,
                             uint32_t *done, uint32_t *records);
