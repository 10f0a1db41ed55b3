typedef struct {
    const uint8_t *bytes;
    uint64_t size_bytes;
    const jfs_record *records;
    const jfs_page *page;
    const uint64_t *starts;
    const uint8_t *prefix;
    uint64_t prefix_bytes;
    uint64_t count;
    uint64_t first;
} jfs_record_view;
jfs_status jfs_record_view_starts(const jfs_record_view *view, uint64_t *starts);
jfs_status jfs_record_view_read(const jfs_record_view *view, uint64_t from, uint8_t *out, uint64_t capacity,
                                uint64_t *written);
const char *jfs_user_type_name(int user_type);
