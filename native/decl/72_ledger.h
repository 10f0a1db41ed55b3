typedef struct jfs_ledger jfs_ledger;

typedef struct {
    int64_t live_bytes;
    int64_t positives;
    uint64_t adds;
    uint64_t replaceable;
    uint64_t live_adds;
    int64_t open_bytes;
} jfs_ledger_file;

typedef struct {
    uint32_t file;
    int64_t count;
} jfs_ledger_cancelled;

typedef struct {
    int64_t tx_id;
    uint32_t operations;
    uint32_t counted;
    uint32_t counted_file;
    uint8_t prepared;
    uint8_t broken;
} jfs_ledger_tx;

typedef struct {
    uint64_t live_records;
    uint64_t open_transactions;
    uint64_t doubtful_transactions;
    uint64_t memory_bytes;
    int64_t id_max;
    int64_t tx_id_max;
} jfs_ledger_counts;

jfs_status jfs_ledger_new(jfs_ledger **out);
void jfs_ledger_free(jfs_ledger *ledger);

jfs_status jfs_ledger_add_file(jfs_ledger *ledger, uint32_t *slot);

void jfs_ledger_drop_file(jfs_ledger *ledger, uint32_t slot);

void jfs_ledger_doubt(jfs_ledger *ledger);
int jfs_ledger_doubts(const jfs_ledger *ledger);
jfs_status jfs_ledger_abandon(jfs_ledger *ledger, int64_t tx_id);

jfs_status jfs_ledger_check(const jfs_ledger *ledger, uint8_t kind, int64_t tx_id, int64_t record_id);

uint32_t jfs_ledger_count(const jfs_ledger *ledger, int64_t tx_id, uint32_t slot);

jfs_status jfs_ledger_apply(jfs_ledger *ledger, uint32_t slot, const jfs_record *records, uint32_t count);

jfs_status jfs_ledger_sum(const jfs_ledger *ledger, const uint32_t *slots, uint32_t count, jfs_ledger_file *out);
jfs_status jfs_ledger_cancels(const jfs_ledger *ledger, uint32_t in_slot, jfs_ledger_cancelled *out, uint32_t room,
                              uint32_t *count);
int jfs_ledger_is_live(const jfs_ledger *ledger, int64_t record_id);
int jfs_ledger_references(const jfs_ledger *ledger, int64_t record_id);
void jfs_ledger_totals(const jfs_ledger *ledger, jfs_ledger_counts *out);

jfs_status jfs_ledger_reclaimable(const jfs_ledger *ledger, const uint32_t *slots, uint32_t count,
                                  uint8_t *reclaimable);

jfs_status jfs_ledger_live_ids(const jfs_ledger *ledger, int64_t *out, uint64_t room, uint64_t *count);
jfs_status jfs_ledger_transactions(const jfs_ledger *ledger, jfs_ledger_tx *out, uint64_t room, uint64_t *count);
