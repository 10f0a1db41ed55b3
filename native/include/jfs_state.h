/* The live set of a message journal: which messages are in which queues, and where their records lie.
 *
 * What each record does: docs/format/records.md ("Load") and docs/format/messages.md ("Building the live state").
 * A state is used by one thread at a time. After JFS_NO_MEMORY it may only be freed.
 */
#ifndef JFS_STATE_H
#define JFS_STATE_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_scan.h"
#include "jfs_status.h"

typedef struct jfs_state jfs_state;

/* "No such queue, message or reference". */
#define JFS_NONE UINT32_MAX

/* One mapped file; an array of them is indexed by file slot (a number the caller gives to each file). */
typedef struct {
    const uint8_t *bytes;
    uint64_t size_bytes;
} jfs_span;

/* ---- life ---- */

jfs_status jfs_state_new(jfs_state **out);
void jfs_state_free(jfs_state *state);

/* What is wrong with the state as a whole; NULL: nothing. For tests and fuzzers: it takes time for every item. */
const char *jfs_state_check(const jfs_state *state);


/* Applies records in replay order. JFS_TORN: the file lost bytes, only the records before that were applied. */
jfs_status jfs_state_apply(jfs_state *state, uint32_t file_slot, const jfs_span *file, const jfs_record *records,
                           uint32_t count);

/* Ends the initial load: the collected deletes take effect, unfinished transactions are reported, and the memory
 * shrinks to what is live. keep_unreferenced: a broker is at work on the journal, so messages without references
 * may yet get some; otherwise they go, as they do when a broker starts.
 */
jfs_status jfs_state_finish(jfs_state *state, int keep_unreferenced);

/* From here on messages are measured before their transaction commits, which then takes little time. For a journal that
 * this process writes: bodies of large messages must be there before the records.
 */
void jfs_state_foresee(jfs_state *state);

/* Does some of what long transactions left to do, for about so many of their operations; each `apply` does a little of it.
 * Nobody sees any of it. Nonzero: there is more.
 */
int jfs_state_settle(jfs_state *state, uint32_t operations);

/* Heap bytes held. */
uint64_t jfs_state_memory(const jfs_state *state);

typedef struct {
    uint64_t messages;
    uint64_t references;
    uint64_t queues;
    uint64_t side_records;
    uint64_t side_version; /* grows with each change of a side record */
    uint64_t transactions;
    uint64_t anomalies;    /* all there were; at most JFS_ANOMALIES_MAX are kept */
    int64_t highest_id;    /* over all records seen but deletes, -1: none */
    uint8_t finished;
} jfs_state_counts;

void jfs_state_count(const jfs_state *state, jfs_state_counts *out);

/* ---- measuring ---- */

/* Measures every message that needs it and has its body in the journal. Files that are not there: {NULL, 0}. */
jfs_status jfs_state_measure(jfs_state *state, const jfs_span *files, uint32_t file_count);

typedef struct {
    int64_t message_id;
    uint32_t message;    /* index */
    uint32_t file_slot;
    uint32_t body_offset;
    uint32_t body_bytes;
    uint8_t source;      /* JFS_SOURCE_* */
} jfs_unmeasured;

/* Live messages that still have no measure: their bodies are in large-message files. */
jfs_status jfs_state_unmeasured(const jfs_state *state, jfs_unmeasured *out, uint32_t capacity, uint32_t *count);

/* JFS_RANGE: the index no longer is the message of that id (the record's; what the payload says may differ). */
jfs_status jfs_state_set_measure(jfs_state *state, uint32_t message, int64_t message_id, const jfs_measure *measure);

/* Ids of live, measured messages whose time was over at now_ms, in no order. */
jfs_status jfs_state_expired(jfs_state *state, int64_t now_ms, int64_t *out, uint32_t capacity, uint32_t *count);

/* Ids of live messages with a large-message file. */
jfs_status jfs_state_large_ids(const jfs_state *state, int64_t *out, uint32_t capacity, uint32_t *count);

/* Ids of live, measured messages that cannot be decoded to their last byte. */
jfs_status jfs_state_damaged_ids(const jfs_state *state, int64_t *out, uint32_t capacity, uint32_t *count);

/* ---- queues and references ---- */

/* The slot of a queue, given to it now if it has none. */
jfs_status jfs_state_register_queue(jfs_state *state, int64_t queue_id, uint32_t *slot);

typedef struct {
    int64_t queue_id;
    uint64_t version;          /* grows with each change of the queue */
    uint64_t live_bytes;       /* sizes of the live messages' own files */
    uint64_t owned_bytes;      /* bodies of records of the messages that count here, a lone header's twice */
    uint64_t left;             /* references that were taken away since this state was made; no checkpoint has it */
    uint32_t owned;            /* how many these are: each message counts in one queue */
    uint32_t owned_large;      /* of these, those whose record has only the header of a core message */
    uint32_t live_count;
    uint32_t delivering_count; /* acknowledged by a prepared transaction */
    uint32_t next_part; /* above the number of any part it had */
    uint32_t reserved;
} jfs_queue_info;

/* Says of queues that a binding names them, and gives them slots. */
jfs_status jfs_state_bind(jfs_state *state, const int64_t *queue_ids, uint32_t count);

/* Says of queues that no binding names them any more; `queue_ids` NULL: of all. */
void jfs_state_unbind(jfs_state *state, const int64_t *queue_ids, uint32_t count);

jfs_status jfs_state_queues(const jfs_state *state, jfs_queue_info *out, uint32_t capacity, uint32_t *count);

/* The same of those that hold messages and that no binding names. */
jfs_status jfs_state_unbound(const jfs_state *state, jfs_queue_info *out, uint32_t capacity, uint32_t *count);

jfs_status jfs_state_queue(const jfs_state *state, uint32_t slot, jfs_queue_info *out);

/* Ids of the queues whose version is another than `seen` has for their slot; it has them then. With less room
 * than there are queues, *count is how many there are and nothing else happens (JFS_FULL). Slots that were not
 * seen yet have version 0 in it, as a queue has that never had a message. */
jfs_status jfs_state_queues_changed(const jfs_state *state, uint64_t *seen, int64_t *out, uint32_t room,
                                    uint32_t *count);

/* What some queues hold together. */
typedef struct {
    uint64_t live_bytes;
    uint64_t owned_bytes;
    uint64_t owned;
    uint64_t owned_large;
    uint64_t live_count;
    uint64_t delivering_count;
    int64_t weight; /* of each message that counts in a queue and is not large: that queue's */
} jfs_queue_sums;

/* Of `count` queues by id; those that are not there hold nothing. `weights` has one for each, or is NULL.
 * `queue_ids` NULL: of all.
 */
void jfs_state_sum(const jfs_state *state, const int64_t *queue_ids, const int32_t *weights, uint32_t count,
                   jfs_queue_sums *out);

/* Earliest timestamp among the live messages of a queue; 0: none. */
jfs_status jfs_state_oldest(const jfs_state *state, uint32_t slot, int64_t *timestamp_ms);

enum { JFS_ORDER_ARRIVAL = 0, JFS_ORDER_DELIVERY = 1 };
enum { JFS_INCLUDE_LIVE = 0, JFS_INCLUDE_DELIVERING = 1, JFS_INCLUDE_ALL = 2 };

/* Reference indexes of a queue; *count is how many there are even when capacity is less (JFS_FULL). */
jfs_status jfs_state_refs(const jfs_state *state, uint32_t slot, int order, int include, uint32_t *out,
                          uint32_t capacity, uint32_t *count);

/* Live references whose delivery is set for after now_ms, by time, then arrival. */
jfs_status jfs_state_scheduled(const jfs_state *state, uint32_t slot, int64_t now_ms, uint32_t *out,
                               uint32_t capacity, uint32_t *count);

/* Live references that were delivered in vain at least so often (above 0), by arrival. */
jfs_status jfs_state_failed(const jfs_state *state, uint32_t slot, int32_t attempts, uint32_t *out, uint32_t capacity,
                            uint32_t *count);

enum { JFS_REF_LIVE = 1, JFS_REF_DELIVERING = 2 };

typedef struct {
    int64_t message_id;
    int64_t scheduled_ms; /* record type 36, else what the message says itself; 0: none */
    int64_t own_scheduled_ms; /* what the message says itself; 0: nothing */
    int64_t timestamp_ms;
    uint64_t tail_bytes;
    uint64_t file_bytes;
    uint32_t message;
    uint32_t queue;
    uint32_t part;        /* 0: in the tail */
    uint32_t file_slot;
    uint32_t body_offset;
    uint32_t body_bytes;
    int32_t delivery_count;
    uint8_t source;
    uint8_t state;        /* JFS_REF_* */
    uint8_t priority;
    uint8_t suffix;
    uint8_t flags;        /* JFS_MESSAGE_* */
    uint8_t measured;
} jfs_ref_info;

jfs_status jfs_state_ref(const jfs_state *state, uint32_t ref, jfs_ref_info *out);

/* *ref is JFS_NONE if the message is not in the queue (references that are delivering are found too). */
jfs_status jfs_state_find(const jfs_state *state, uint32_t slot, int64_t message_id, uint32_t *ref);

/* Where the record of a message lies, and when it is due in a queue (0: it is). */
typedef struct {
    int64_t message_id;
    int64_t scheduled_ms;
    uint32_t file_slot;
    uint32_t body_offset;
    uint32_t body_bytes;
    uint8_t source;
} jfs_record_place;

/* JFS_RANGE: it is not in the queue. */
jfs_status jfs_state_record_place(const jfs_state *state, uint32_t slot, int64_t message_id, jfs_record_place *out);

/* Of those that are in the queue, *found many; used[s] becomes 1 for each file slot s below `file_count` that one of
 * them lies in.
 */
jfs_status jfs_state_record_places(const jfs_state *state, uint32_t slot, const int64_t *ids, uint32_t count,
                                   jfs_record_place *out, uint32_t *found, uint8_t *used, uint32_t file_count);

/* References of one message in all queues. */
jfs_status jfs_state_message_refs(const jfs_state *state, int64_t message_id, uint32_t *out, uint32_t capacity,
                                  uint32_t *count);

/* ---- lines ---- */

/* One array per column, each of `count` items; NULL columns are left out. */
typedef struct {
    int64_t *ids;
    uint64_t *sizes;
    int64_t *mtimes_ms;
    uint8_t *suffixes;
} jfs_listing;

jfs_status jfs_state_listing(const jfs_state *state, const uint32_t *refs, uint32_t count, const jfs_listing *out);

/* How the lines of a batch are: those of a part keep what they had when it was sealed. */
typedef struct {
    uint64_t prefix_bytes; /* `{"queue":...` */
    int64_t now_ms;        /* unsealed lines name a schedule only if it is later */
    uint8_t sealed;
} jfs_line_options;

/* starts[0..count]: where each line begins, and at last the total. */
jfs_status jfs_state_line_starts(const jfs_state *state, const uint32_t *refs, uint32_t count,
                                 const jfs_line_options *options, uint64_t *starts);

/* Fills the lines; large bodies are left to the caller. JFS_RANGE: a file is missing or shorter than its record. */
jfs_status jfs_state_fill_lines(const jfs_state *state, const uint32_t *refs, uint32_t count,
                                const jfs_line_options *options, const jfs_span *files, uint32_t file_count,
                                jfs_line *out);

/* ---- parts ---- */

typedef struct {
    int64_t mtime_ms;
    uint64_t live_bytes; /* without the prefix of each line */
    uint32_t number;
    uint32_t live_count;
} jfs_part_info;

typedef struct {
    uint64_t bytes_max;
    uint32_t messages_max;
    uint32_t number_from; /* numbers of new parts are at least this, */
    uint32_t number_end;  /* below this, and above any the queue had */
} jfs_seal_limits;

/* Puts everything in the tail into new parts of at most these sizes. Stops before a message without measure. JFS_FULL:
 * and where numbers ran out; *made holds then, too.
 */
jfs_status jfs_state_seal(jfs_state *state, uint32_t slot, int64_t now_ms, const jfs_seal_limits *limits, uint32_t *made);
jfs_status jfs_state_parts(const jfs_state *state, uint32_t slot, jfs_part_info *out, uint32_t capacity,
                           uint32_t *count);
jfs_status jfs_state_part_refs(const jfs_state *state, uint32_t slot, uint32_t number, uint32_t *out,
                               uint32_t capacity, uint32_t *count);
jfs_status jfs_state_tail_refs(const jfs_state *state, uint32_t slot, uint32_t *out, uint32_t capacity,
                               uint32_t *count);

/* ---- transactions, side records, anomalies ---- */

/* ENDED: its COMMIT counts records that are not there, so nothing of it counts; what is left of it is kept. */
enum { JFS_TX_PREPARED = 1, JFS_TX_INVALID = 2, JFS_TX_ENDED = 4 };

typedef struct {
    int64_t tx_id;
    uint32_t file_slot;    /* of the PREPARE */
    uint32_t extra_offset;
    uint32_t extra_bytes;
    uint32_t operations;
    uint8_t flags;         /* JFS_TX_* */
} jfs_tx_info;

/* One record of a transaction: ADD, UPDATE or DELETE (kind) as it will take effect. */
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

/* Every open transaction in order of first appearance, prepared or not, and those that are ENDED. */
jfs_status jfs_state_transactions(const jfs_state *state, jfs_tx_info *out, uint32_t capacity, uint32_t *count);
jfs_status jfs_state_operations(const jfs_state *state, int64_t tx_id, jfs_operation *out, uint32_t capacity,
                                uint32_t *count);

/* What became of live records of types 35, 39 and 42 since the last call, in its order: ADD, UPDATE with what holds now,
 * or DELETE with what held. *lost: it is not known, as before the first call and where there was too much; then nothing
 * is given out, and whoever asks looks at all of them.
 */
enum { JFS_PAGE_CHANGES_MAX = 65536 };
jfs_status jfs_state_page_changes(jfs_state *state, jfs_operation *out, uint32_t capacity, uint32_t *count,
                                  uint8_t *lost);

/* Live records that are no messages: paging positions and counts, duplicate ids and so on, in journal order.
 * user_type filters, JFS_ANY_TYPE does not. a, b, c: the payload's numbers as far as the type has fixed ones.
 */
enum { JFS_ANY_TYPE = 256 };
jfs_status jfs_state_side(const jfs_state *state, int user_type, jfs_operation *out, uint32_t capacity,
                          uint32_t *count);

enum {
    JFS_ANOMALY_REF_OF_UNKNOWN = 1,    /* a message, b queue: a reference whose message was not seen before */
    JFS_ANOMALY_ACK_OF_UNKNOWN = 2,    /* a message, b queue */
    JFS_ANOMALY_UPDATE_OF_UNKNOWN = 3, /* a message, b queue: delivery count or schedule */
    JFS_ANOMALY_ACK_WITHOUT_REF = 4,   /* a message, b queue: the message is known, but not in that queue */
    JFS_ANOMALY_COMMIT_INCOMPLETE = 5, /* a transaction, b count it names: the whole transaction is dropped */
    JFS_ANOMALY_PREPARE_INCOMPLETE = 6, /* a transaction, b count it names */
    JFS_ANOMALY_TX_UNFINISHED = 7,     /* a transaction, b its operations: neither prepared nor ended */
    JFS_ANOMALY_NO_REFERENCES = 8,     /* a message: in no queue */
    JFS_ANOMALY_SHORT_RECORD = 9,      /* a record, b user type: too short for its type, left out */
    JFS_ANOMALY_IN_DAMAGE = 10         /* a record, b kind: applied, though it may be part of a damaged one's body */
};

#define JFS_ANOMALIES_MAX 65536U

typedef struct {
    int64_t a;
    int64_t b;
    uint32_t kind;
    uint32_t file_slot;
    uint32_t offset;
} jfs_anomaly;

jfs_status jfs_state_anomalies(const jfs_state *state, jfs_anomaly *out, uint32_t capacity, uint32_t *count);

/* Sets used[slot] to 1 for every file slot below file_count in which anything live or of an open transaction lies. */
void jfs_state_used_files(const jfs_state *state, uint8_t *used, uint32_t file_count);

/* ---- checkpoint ---- */

/* The whole state as flat bytes in this machine's layout. Only after jfs_state_finish(). */
uint64_t jfs_state_save_bytes(const jfs_state *state);
jfs_status jfs_state_save(const jfs_state *state, uint8_t *out, uint64_t capacity);

/* JFS_MALFORMED: not what jfs_state_save() of this build wrote. */
jfs_status jfs_state_load(const uint8_t *bytes, uint64_t size_bytes, jfs_state **out);

/* JFS_MALFORMED: a message has no measure, or a record that the state refers to does not lie before ends[slot] of its
 * file, or in none of file_count files. For a loaded state, before anything is read by it.
 */
jfs_status jfs_state_lies_within(const jfs_state *state, const uint64_t *ends, uint32_t file_count);

#endif
