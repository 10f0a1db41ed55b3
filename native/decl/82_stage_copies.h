typedef struct {
    const uint8_t *address;
    const uint8_t *queue_name;
    int64_t queue;
    int64_t tx_id;
    uint32_t address_bytes;
    uint32_t queue_name_bytes;
    uint32_t body_bytes_max;
    uint32_t message_bytes_max;
} jfs_copies;
jfs_status jfs_copies_alike(const jfs_copies *copies, const jfs_line *lines, uint32_t count, int *possible,
                            uint32_t *alike);
jfs_status jfs_stage_copies(jfs_stage *stage, jfs_ledger *ledger, const jfs_copies *copies, const jfs_line *lines,
                            const int64_t *ids, uint32_t count, int64_t first_id, jfs_batch_progress *progress);
