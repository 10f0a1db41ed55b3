enum { JFS_IO_NIO = 0, JFS_IO_MAPPED = 1, JFS_IO_AIO = 2 };

typedef struct jfs_io jfs_io;

typedef struct {
    uint64_t tag;
    int32_t error;
    uint32_t reserved;
} jfs_io_done;

jfs_status jfs_io_open(jfs_io **out, int kind, uint32_t depth, int *system_error);

void jfs_io_close(jfs_io *io);

int jfs_io_event_fd(const jfs_io *io);

jfs_status jfs_io_submit(jfs_io *io, int fd, uint8_t *map, uint64_t file_offset, const uint8_t *bytes,
                         uint64_t length, int durable, uint64_t tag, int *system_error);

jfs_status jfs_io_perform(const jfs_io *io, int fd, uint8_t *map, uint64_t file_offset, const uint8_t *bytes,
                          uint64_t length, int durable, int *system_error);

jfs_status jfs_io_wait(jfs_io *io, int64_t timeout_ns, jfs_io_done *out, uint32_t room, uint32_t *count,
                       int *system_error);

jfs_status jfs_file_fill(int fd, uint64_t size_bytes, uint64_t chunk_bytes, int durable, int *system_error);
jfs_status jfs_file_map(int fd, uint64_t size_bytes, uint8_t **out, int *system_error);
void jfs_file_unmap(uint8_t *map, uint64_t size_bytes);
