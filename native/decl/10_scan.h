jfs_status jfs_map(int fd, uint64_t size_bytes, const uint8_t **out);
void jfs_unmap(const uint8_t *bytes, uint64_t size_bytes);
void jfs_map_release(const uint8_t *bytes, uint64_t size_bytes);
jfs_status jfs_map_again(const uint8_t *bytes, uint64_t size_bytes, const uint8_t **out);
jfs_status jfs_map_mend(const uint8_t *bytes, uint64_t size_bytes, uint64_t *at, uint64_t *length);
jfs_status jfs_copy(uint8_t *to, const uint8_t *from, uint64_t length);

enum { JFS_RECORD_IN_DAMAGE = 1 };

typedef struct {
    int64_t record_id;
    int64_t tx_id;
    uint32_t offset;
    uint32_t length;
    uint32_t body_offset;
    uint32_t body_bytes;
    int32_t count;
    uint8_t kind;
    int8_t user_type;
    int8_t compact_count;
    uint8_t flags;
} jfs_record;

typedef struct {
    uint32_t offset;
    uint32_t length;
    uint32_t kind;
} jfs_gap;

enum { JFS_SCAN_ANY_RID = 1, JFS_SCAN_STOP_AT_DAMAGE = 2 };

typedef struct {
    uint64_t start_offset;
    uint64_t stop_offset;
    int32_t rid;
    uint8_t version;
    uint8_t flags;
} jfs_scan_options;

typedef struct {
    jfs_record *records;
    jfs_gap *gaps;
    uint32_t count;
    uint32_t capacity;
    uint32_t gap_count;
    uint32_t gap_capacity;
    uint32_t end_offset;
    uint8_t marked;
} jfs_scan;

jfs_status jfs_scan_journal(const uint8_t *bytes, uint64_t size_bytes, const jfs_scan_options *options,
                            jfs_scan *out);
void jfs_scan_free(jfs_scan *scan);
