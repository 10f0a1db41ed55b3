typedef struct {
    const uint8_t *address;
    const uint8_t *properties;
    const int64_t *every;
    const int64_t *in_turn;
    uint64_t turn;
    int64_t first_id;
    int64_t tx_id;
    int64_t timestamp_ms;
    int64_t expiration_ms;
    uint64_t user_id_step;
    uint32_t address_bytes;
    uint32_t properties_bytes;
    uint32_t every_count;
    uint32_t in_turn_count;
    uint32_t body_bytes_max;
    uint32_t record_bytes_max;
    uint8_t user_id_node[8];
} jfs_text_batch;

jfs_status jfs_stage_texts(jfs_stage *stage, jfs_ledger *ledger, const jfs_text_batch *batch, const uint8_t *bytes,
                           const jfs_stretch *texts, uint32_t count, jfs_batch_progress *progress);
