enum { JFS_CHECKSUM_RECORD_BYTES = 51, JFS_CHECKSUM_USER_TYPE = 99 };

enum { JFS_CHECKSUM_REWRITTEN = -1 };
typedef struct {
    int64_t file_id;
    int64_t previous_id;
    uint32_t previous_end;
} jfs_checksum_place;

void jfs_checksum_record(uint8_t *to, const uint8_t *stretch, uint32_t file_offset, uint32_t length,
                         const jfs_checksum_place *place);

jfs_status jfs_stage_checksum(jfs_stage *stage, const jfs_checksum_place *place);

typedef struct {
    uint32_t offset;
    uint32_t length;
    uint32_t record_offset;
} jfs_mismatch;

typedef struct {
    int64_t previous_id;
    uint32_t previous_end;
    uint32_t checked;
    uint8_t rewritten;
} jfs_checksum_summary;

jfs_status jfs_checksum_check(const uint8_t *bytes, uint64_t size_bytes, const jfs_record *records,
                              uint32_t record_count, int64_t file_id, jfs_mismatch *out, uint32_t capacity,
                              uint32_t *count, jfs_checksum_summary *summary);
