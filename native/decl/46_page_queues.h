typedef struct {
    int64_t queue_id;
    uint64_t line_bytes;
    uint32_t records;
    uint32_t newest;
} jfs_page_queue;
jfs_status jfs_page_queues(const jfs_page *page, jfs_page_queue *out, uint32_t capacity, uint32_t *count);
