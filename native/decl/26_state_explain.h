typedef struct {
    int64_t queue_id;
    int64_t oldest_ms;
    uint64_t body_bytes;
    uint32_t messages;
    uint32_t delivering;
} jfs_queue_share;

jfs_status jfs_state_explain_queues(const jfs_state *state, uint32_t file_slot, jfs_queue_share *out,
                                    uint32_t capacity, uint32_t *count, uint32_t *referenced);

enum { JFS_USER_TYPES = 256 };
void jfs_state_explain_others(const jfs_state *state, uint32_t file_slot, uint32_t *by_type);

typedef struct {
    int64_t tx_id;
    uint32_t operations;
    uint8_t flags;
} jfs_tx_share;

jfs_status jfs_state_explain_txs(const jfs_state *state, uint32_t file_slot, jfs_tx_share *out, uint32_t capacity,
                                 uint32_t *count);
