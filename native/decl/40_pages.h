enum {
    JFS_PAGE_UNDECODED = 1
};
typedef struct {
    uint64_t offset;
    uint64_t payload_offset;
    int64_t tx_id;
    uint32_t record_bytes;
    uint32_t payload_bytes;
    uint32_t queue_index;
    uint32_t queue_count;
    int8_t kind;
    uint8_t source;
    uint8_t flags;
    uint8_t reserved[5];
} jfs_page_entry;
typedef struct {
    jfs_page_entry *entries;
    jfs_measure *measures;
    int64_t *queue_ids;
    uint64_t end_offset;
    uint64_t damaged_at;
    const char *reason;
    uint32_t count;
    uint32_t capacity;
    uint32_t queue_count;
    uint32_t queue_capacity;
} jfs_page;
typedef struct {
    uint64_t start;
    uint64_t end;
} jfs_hole;
jfs_status jfs_scan_page(const uint8_t *bytes, uint64_t size_bytes, uint64_t start, const jfs_hole *holes,
                         uint32_t hole_count, jfs_page *out);
void jfs_page_free(jfs_page *page);
enum {
    JFS_PAGE_TX_IDS = 0,
    JFS_PAGE_MESSAGE_IDS = 1,
    JFS_PAGE_QUEUE_STARTS = 2,
    JFS_PAGE_ALL_FLAGS = 3,
    JFS_PAGE_MEASURE_FLAGS = 4,
    JFS_PAGE_EXPIRATIONS = 5,
};
jfs_status jfs_page_column(const jfs_page *page, int column, void *out);
uint32_t jfs_page_of_queue(const jfs_page *page, int64_t queue_id, uint32_t *out);
jfs_status jfs_page_lines(const jfs_page *page, const uint8_t *bytes, const uint32_t *numbers, uint32_t count,
                          uint64_t prefix_bytes, int64_t now_ms, jfs_line *lines, uint64_t *starts);
