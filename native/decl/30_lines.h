typedef struct jfs_cursor jfs_cursor;
jfs_status jfs_cursor_new(jfs_cursor **out);
void jfs_cursor_free(jfs_cursor *cursor);

typedef struct {
    const jfs_line *lines;
    const uint64_t *starts;
    const uint8_t *prefix;
    uint64_t prefix_bytes;
    uint64_t count;
} jfs_lines;

jfs_status jfs_lines_measure(const jfs_line *lines, uint64_t count, jfs_measure *out);
jfs_status jfs_lines_starts(const jfs_line *lines, uint64_t count, uint64_t prefix_bytes, uint64_t *starts);
jfs_status jfs_lines_read(const jfs_lines *lines, uint64_t from, uint8_t *out, uint64_t capacity, uint64_t *written,
                          jfs_cursor *cursor);
jfs_status jfs_body_read(const jfs_line *line, uint64_t body_bytes, uint64_t from, uint8_t *out, uint64_t capacity,
                         uint64_t *written, jfs_cursor *cursor);
