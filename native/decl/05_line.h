enum { JFS_SOURCE_PERSISTER = 0, JFS_SOURCE_CORE_LARGE = 1, JFS_SOURCE_UNREADABLE = 2 };

typedef struct {
    const uint8_t *payload;
    const uint8_t *large;
    uint64_t large_bytes;
    int64_t scheduled_ms;
    uint32_t payload_bytes;
    int32_t delivery_count;
    uint8_t source;
    uint8_t large_missing;
    uint8_t reserved[6];
    int64_t record_id;
} jfs_line;

enum { JFS_SUFFIX_TXT = 0, JFS_SUFFIX_JSON = 1, JFS_SUFFIX_BIN = 2, JFS_SUFFIX_SER = 3 };

enum {
    JFS_MESSAGE_DURABLE = 1,
    JFS_MESSAGE_LARGE = 2,
    JFS_MESSAGE_DAMAGED = 4,
    JFS_MESSAGE_AMQP = 8,
    JFS_MESSAGE_COMPRESSED = 16,
    JFS_MESSAGE_MISNAMED = 32
};

typedef struct {
    uint64_t tail_bytes;
    uint64_t body_bytes;
    int64_t message_id;
    int64_t timestamp_ms;
    int64_t expiration_ms;
    int64_t scheduled_ms;
    uint8_t priority;
    uint8_t suffix;
    uint8_t flags;
    uint8_t reserved[5];
} jfs_measure;
