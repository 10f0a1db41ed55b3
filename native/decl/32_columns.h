enum {
    JFS_COLUMN_ADDRESS = 0,
    JFS_COLUMN_USER_ID = 1,
    JFS_COLUMN_GROUP = 2,
    JFS_COLUMN_DUPLICATE = 3,
    JFS_COLUMN_DUPLICATE_BYTES = 4,
    JFS_COLUMN_BODY = 5,
    JFS_COLUMN_BODY_BYTES = 6,
    JFS_COLUMN_BODY_FILE = 7,
    JFS_COLUMN_DAMAGE = 8,
    JFS_COLUMN_RAW = 9,
    JFS_COLUMN_KEYS = 10,
    JFS_COLUMN_VALUES = 11,
    JFS_COLUMNS = 12
};
typedef struct {
    int32_t *offsets;
    uint8_t *valid;
    uint8_t *data;
    uint64_t data_capacity;
    uint32_t data_bytes;
    uint32_t rows;
    uint32_t row_capacity;
    uint32_t nulls;
} jfs_column;
enum {
    JFS_ROW_DURABLE = 1,
    JFS_ROW_LARGE = 2,
    JFS_ROW_AMQP = 4,
    JFS_ROW_HAS_ID = 8,
    JFS_ROW_HAS_HEADER = 16,
    JFS_ROW_HAS_TYPE = 32
};
enum { JFS_ROW_AMQP_TYPES = 256 };
typedef struct {
    int64_t id;
    int64_t timestamp_ms;
    int64_t expiration_ms;
    int64_t scheduled_ms;
    uint32_t properties;
    uint16_t type;
    int8_t priority;
    uint8_t flags;
} jfs_row;
enum { JFS_KIND_AMQP = 32 };
typedef struct {
    jfs_column columns[JFS_COLUMNS];
    jfs_row *rows;
    uint8_t *kinds;
    uint32_t count;
    uint32_t row_capacity;
    uint32_t kind_count;
    uint32_t kind_capacity;
} jfs_columns;
jfs_status jfs_columns_read(const jfs_line *lines, uint64_t count, uint32_t wanted, uint64_t bytes_max,
                            jfs_columns *out);
void jfs_columns_free(jfs_columns *columns);
const char *jfs_kind_name(uint8_t kind);
