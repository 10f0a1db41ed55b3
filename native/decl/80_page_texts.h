typedef struct {
    uint8_t *buffer;
    uint64_t buffer_bytes;
    uint64_t page_bytes;
    uint64_t page_bytes_max;
    uint64_t page_records;
} jfs_page_room;

int jfs_texts_too_long(const jfs_text_batch *batch, const jfs_stretch *texts, uint32_t count);

jfs_status jfs_page_texts(const jfs_page_room *room, const jfs_text_batch *batch, const uint8_t *bytes,
                          const jfs_stretch *texts, uint32_t count, jfs_batch_progress *progress, uint64_t *used);

