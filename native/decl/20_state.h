typedef struct jfs_state jfs_state;

#define JFS_NONE ...

typedef struct {
    const uint8_t *bytes;
    uint64_t size_bytes;
} jfs_span;

jfs_status jfs_state_new(jfs_state **out);
void jfs_state_free(jfs_state *state);

jfs_status jfs_state_apply(jfs_state *state, uint32_t file_slot, const jfs_span *file, const jfs_record *records,
                           uint32_t count);

jfs_status jfs_state_finish(jfs_state *state, int keep_unreferenced);

void jfs_state_foresee(jfs_state *state);
uint64_t jfs_state_memory(const jfs_state *state);

typedef struct {
    uint64_t messages;
    uint64_t references;
    uint64_t queues;
    uint64_t side_records;
    uint64_t side_version;
    uint64_t transactions;
    uint64_t anomalies;
    int64_t highest_id;
    uint8_t finished;
} jfs_state_counts;

void jfs_state_count(const jfs_state *state, jfs_state_counts *out);

jfs_status jfs_state_measure(jfs_state *state, const jfs_span *files, uint32_t file_count);

typedef struct {
    int64_t message_id;
    uint32_t message;
    uint32_t file_slot;
    uint32_t body_offset;
    uint32_t body_bytes;
    uint8_t source;
} jfs_unmeasured;

jfs_status jfs_state_unmeasured(const jfs_state *state, jfs_unmeasured *out, uint32_t capacity, uint32_t *count);

jfs_status jfs_state_set_measure(jfs_state *state, uint32_t message, int64_t message_id, const jfs_measure *measure);

jfs_status jfs_state_expired(jfs_state *state, int64_t now_ms, int64_t *out, uint32_t capacity, uint32_t *count);
jfs_status jfs_state_large_ids(const jfs_state *state, int64_t *out, uint32_t capacity, uint32_t *count);

jfs_status jfs_state_register_queue(jfs_state *state, int64_t queue_id, uint32_t *slot);

typedef struct {
    int64_t queue_id;
    uint64_t version;
    uint64_t live_bytes;
    uint64_t owned_bytes;
    uint32_t owned;
    uint32_t owned_large;
    uint32_t live_count;
    uint32_t delivering_count;
    uint32_t next_part;
    uint32_t reserved;
} jfs_queue_info;

jfs_status jfs_state_queues(const jfs_state *state, jfs_queue_info *out, uint32_t capacity, uint32_t *count);
jfs_status jfs_state_queue(const jfs_state *state, uint32_t slot, jfs_queue_info *out);
jfs_status jfs_state_queues_changed(const jfs_state *state, uint64_t *seen, int64_t *out, uint32_t room,
                                    uint32_t *count);

jfs_status jfs_state_oldest(const jfs_state *state, uint32_t slot, int64_t *timestamp_ms);

enum { JFS_ORDER_ARRIVAL = 0, JFS_ORDER_DELIVERY = 1 };
enum { JFS_INCLUDE_LIVE = 0, JFS_INCLUDE_DELIVERING = 1, JFS_INCLUDE_ALL = 2 };

jfs_status jfs_state_refs(const jfs_state *state, uint32_t slot, int order, int include, uint32_t *out,
                          uint32_t capacity, uint32_t *count);

jfs_status jfs_state_scheduled(const jfs_state *state, uint32_t slot, int64_t now_ms, uint32_t *out,
                               uint32_t capacity, uint32_t *count);

enum { JFS_REF_LIVE = 1, JFS_REF_DELIVERING = 2 };

typedef struct {
    int64_t message_id;
    int64_t scheduled_ms;
    int64_t own_scheduled_ms;
    int64_t timestamp_ms;
    uint64_t tail_bytes;
    uint64_t file_bytes;
    uint32_t message;
    uint32_t queue;
    uint32_t part;
    uint32_t file_slot;
    uint32_t body_offset;
    uint32_t body_bytes;
    int32_t delivery_count;
    uint8_t source;
    uint8_t state;
    uint8_t priority;
    uint8_t suffix;
    uint8_t flags;
    uint8_t measured;
} jfs_ref_info;

jfs_status jfs_state_ref(const jfs_state *state, uint32_t ref, jfs_ref_info *out);

jfs_status jfs_state_find(const jfs_state *state, uint32_t slot, int64_t message_id, uint32_t *ref);

jfs_status jfs_state_message_refs(const jfs_state *state, int64_t message_id, uint32_t *out, uint32_t capacity,
                                  uint32_t *count);

typedef struct {
    int64_t *ids;
    uint64_t *sizes;
    int64_t *mtimes_ms;
    uint8_t *suffixes;
} jfs_listing;

jfs_status jfs_state_listing(const jfs_state *state, const uint32_t *refs, uint32_t count, const jfs_listing *out);

typedef struct {
    uint64_t prefix_bytes;
    int64_t now_ms;
    uint8_t sealed;
} jfs_line_options;

jfs_status jfs_state_line_starts(const jfs_state *state, const uint32_t *refs, uint32_t count,
                                 const jfs_line_options *options, uint64_t *starts);

jfs_status jfs_state_fill_lines(const jfs_state *state, const uint32_t *refs, uint32_t count,
                                const jfs_line_options *options, const jfs_span *files, uint32_t file_count,
                                jfs_line *out);

typedef struct {
    int64_t mtime_ms;
    uint64_t live_bytes;
    uint32_t number;
    uint32_t live_count;
} jfs_part_info;

typedef struct {
    uint64_t bytes_max;
    uint32_t messages_max;
    uint32_t number_from;
    uint32_t number_end;
} jfs_seal_limits;

jfs_status jfs_state_seal(jfs_state *state, uint32_t slot, int64_t now_ms, const jfs_seal_limits *limits, uint32_t *made);
jfs_status jfs_state_parts(const jfs_state *state, uint32_t slot, jfs_part_info *out, uint32_t capacity,
                           uint32_t *count);
jfs_status jfs_state_part_refs(const jfs_state *state, uint32_t slot, uint32_t number, uint32_t *out,
                               uint32_t capacity, uint32_t *count);
jfs_status jfs_state_tail_refs(const jfs_state *state, uint32_t slot, uint32_t *out, uint32_t capacity,
                               uint32_t *count);

enum { JFS_TX_PREPARED = 1, JFS_TX_INVALID = 2 };

typedef struct {
    int64_t tx_id;
    uint32_t file_slot;
    uint32_t extra_offset;
    uint32_t extra_bytes;
    uint32_t operations;
    uint8_t flags;
} jfs_tx_info;

typedef struct {
    int64_t record_id;
    int64_t a;
    int64_t b;
    int64_t c;
    uint32_t file_slot;
    uint32_t body_offset;
    uint32_t body_bytes;
    uint8_t kind;
    int8_t user_type;
} jfs_operation;

jfs_status jfs_state_transactions(const jfs_state *state, jfs_tx_info *out, uint32_t capacity, uint32_t *count);
jfs_status jfs_state_operations(const jfs_state *state, int64_t tx_id, jfs_operation *out, uint32_t capacity,
                                uint32_t *count);

enum { JFS_ANY_TYPE = 256 };
jfs_status jfs_state_page_changes(jfs_state *state, jfs_operation *out, uint32_t capacity, uint32_t *count,
                                  uint8_t *lost);
jfs_status jfs_state_side(const jfs_state *state, int user_type, jfs_operation *out, uint32_t capacity,
                          uint32_t *count);

enum {
    JFS_ANOMALY_REF_OF_UNKNOWN = 1,
    JFS_ANOMALY_ACK_OF_UNKNOWN = 2,
    JFS_ANOMALY_UPDATE_OF_UNKNOWN = 3,
    JFS_ANOMALY_ACK_WITHOUT_REF = 4,
    JFS_ANOMALY_COMMIT_INCOMPLETE = 5,
    JFS_ANOMALY_PREPARE_INCOMPLETE = 6,
    JFS_ANOMALY_TX_UNFINISHED = 7,
    JFS_ANOMALY_NO_REFERENCES = 8,
    JFS_ANOMALY_SHORT_RECORD = 9,
    JFS_ANOMALY_IN_DAMAGE = 10
};

#define JFS_ANOMALIES_MAX ...

typedef struct {
    int64_t a;
    int64_t b;
    uint32_t kind;
    uint32_t file_slot;
    uint32_t offset;
} jfs_anomaly;

jfs_status jfs_state_anomalies(const jfs_state *state, jfs_anomaly *out, uint32_t capacity, uint32_t *count);

void jfs_state_used_files(const jfs_state *state, uint8_t *used, uint32_t file_count);

uint64_t jfs_state_save_bytes(const jfs_state *state);
jfs_status jfs_state_save(const jfs_state *state, uint8_t *out, uint64_t capacity);

jfs_status jfs_state_load(const uint8_t *bytes, uint64_t size_bytes, jfs_state **out);
jfs_status jfs_state_lies_within(const jfs_state *state, const uint64_t *ends, uint32_t file_count);
