enum { JFS_STAGE_ALIGNMENT = 4096 };

typedef struct {
    uint8_t *bytes;
    uint64_t buffer_bytes;
    uint64_t room_bytes;
    uint64_t used_bytes;
    uint64_t file_offset;
    jfs_record *records;
    uint32_t record_count;
    uint32_t record_room;
    uint32_t slot;
    int32_t rid;
} jfs_stage;

jfs_status jfs_stage_new(jfs_stage **out, uint64_t buffer_bytes);
void jfs_stage_free(jfs_stage *stage);

void jfs_stage_begin(jfs_stage *stage, uint32_t slot, int32_t rid, uint64_t file_offset, uint64_t room_bytes);

jfs_status jfs_stage_one(jfs_stage *stage, jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id,
                         int8_t user_type, const uint8_t *body, uint32_t body_bytes);

uint64_t jfs_stage_seal(jfs_stage *stage, uint64_t alignment_bytes);
typedef struct {
    uint32_t message;
    uint32_t step;
    uint64_t records;
    uint64_t needed_bytes;
} jfs_batch_progress;
