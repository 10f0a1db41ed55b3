enum { JFS_PREPARE = 17, JFS_COMMIT = 18 };

typedef struct {
    const uint8_t *body;
    int64_t tx_id;
    int64_t record_id;
    uint32_t body_bytes;
    int32_t count;
    uint8_t kind;
    int8_t user_type;
    int8_t compact_count;
} jfs_new_record;

uint64_t jfs_record_bytes(uint8_t kind, uint64_t body_bytes);
jfs_status jfs_encode(uint8_t *to, uint64_t room_bytes, int32_t rid, const jfs_new_record *records, uint32_t count,
                      uint64_t *used, uint32_t *done);
jfs_status jfs_record_copy(uint8_t *to, uint64_t room_bytes, const uint8_t *file_bytes, const jfs_record *record,
                           uint8_t version, int32_t rid, int8_t compact_count, int32_t count, uint64_t *used);
