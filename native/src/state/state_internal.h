/* The inside of jfs_state: arrays indexed by u32, with free slots reused.
 *
 * A live message with one reference costs 48 (message) + 28 (reference) + 4 (arrival) + 5..11 (index) bytes, and 16
 * more if it expires. One that is scheduled or was redelivered takes 24 more, and 21..27 if it says its schedule itself.
 */
#ifndef JFS_STATE_INTERNAL_H
#define JFS_STATE_INTERNAL_H

#include <stdlib.h>
#include <string.h>

#include "index.h"
#include "jfs_assert.h"
#include "jfs_history.h"
#include "jfs_state.h"
#include "user_types.h"

/* ---- arrays ---- */

/* A growing array: T *items, uint32_t count, capacity. */
#define VECTOR(T)          \
    struct {               \
        T *items;          \
        uint32_t count;    \
        uint32_t capacity; \
    }

/* `items` is the address of the vector's pointer, whatever it points to. */
jfs_status vector_grow(void *items, uint32_t *capacity, size_t item_bytes, uint32_t wanted);
void vector_shrink(void *items, uint32_t *capacity, size_t item_bytes, uint32_t count);

/* Makes room for one more. */
#define VECTOR_ROOM(v)                \
    ((v)->count < (v)->capacity ? JFS_OK \
                                : vector_grow(&(v)->items, &(v)->capacity, sizeof *(v)->items, (v)->count + 1))
#define VECTOR_SHRINK(v) vector_shrink(&(v)->items, &(v)->capacity, sizeof *(v)->items, (v)->count)
#define VECTOR_BYTES(v) ((uint64_t)(v)->capacity * sizeof *(v)->items)

/* ---- messages and references ---- */

enum {
    MESSAGE_USED = 1,
    MESSAGE_MEASURED = 2,
    MESSAGE_LARGE_SOURCE = 4, /* its body is in a large-message file, so others measure it */
    MESSAGE_WIDE = 8,         /* many references: they are in the wide index */
    MESSAGE_KEPT = 16,        /* an open transaction gives it a reference */
    MESSAGE_EXPIRES = 32,     /* it is among the expiries */
    MESSAGE_SCHEDULED = 64    /* it is among the schedules */
};

typedef struct {
    int64_t id; /* first: the index's key */
    int64_t timestamp_ms;
    uint32_t body_offset;
    uint32_t body_bytes;
    uint32_t tail_low; /* sizes are 40 bits: up to 1 TiB */
    uint32_t file_low;
    uint32_t file_slot;
    uint32_t first_ref; /* in a free slot: the next free one */
    uint8_t tail_high;
    uint8_t file_high;
    uint8_t priority;
    uint8_t suffix;
    uint8_t flags; /* JFS_MESSAGE_* */
    uint8_t source;
    uint8_t state; /* MESSAGE_* */
    uint8_t refs;  /* counts to REFS_WIDE and stays there */
} message_item;

enum { REFS_WIDE = 32 };

/* In the second number of an acknowledgement, which has none: a prepared transaction found what it is of. By the time of
 * its commit that may have left another way: brokers make room in a ring by messages that such a transaction holds.
 */
enum { ACK_OF_FOUND = 1 };

enum { REF_FREE = 0, REF_LIVE = JFS_REF_LIVE, REF_DELIVERING = JFS_REF_DELIVERING };

typedef struct {
    uint32_t message; /* in a free slot: the next free one */
    uint32_t queue;
    uint32_t next; /* references of the same message */
    uint32_t prev;
    uint32_t part;
    uint32_t position; /* in the queue's arrival array */
    uint32_t decor : 28; /* index, 0: none */
    uint32_t state : 4;  /* REF_* */
} ref_item;

enum { DECOR_MAX = (1 << 28) - 1 };

/* What few references have: redelivered or scheduled ones. The time is that of their record, or what the message says. */
typedef struct {
    int64_t scheduled_ms;
    int64_t sealed_scheduled_ms;
    int32_t delivery_count; /* in a free slot: the next free one */
    int32_t sealed_delivery_count;
} decor_item;

/* Reference of a message with many, found by message and queue. */
typedef struct {
    int64_t key; /* message << 32 | queue; in a free slot: the next free one */
    uint32_t ref;
} wide_item;

/* A message that expires; of a heap. */
typedef struct {
    int64_t expiration_ms;
    int64_t message_id; /* may be that of a message that is gone */
} expiry_item;

/* When a message says itself that it is due. */
typedef struct {
    int64_t message_id; /* first: the index's key */
    int64_t due_ms;     /* in a free slot: the next free one */
} schedule_item;

/* Whether it is of what was, and what is applied then: all, or ends alone. */
enum { HISTORY_NONE = 0, HISTORY_TAKES, HISTORY_ENDS };

/* ---- queues and parts ---- */

typedef struct {
    int64_t mtime_ms;
    uint64_t live_bytes;
    uint32_t number;
    uint32_t live_count;
    uint32_t first; /* positions in arrival between which its references lie */
    uint32_t last;
} part_item;

typedef struct {
    int64_t queue_id;          /* first: the index's key */
    VECTOR(uint32_t) arrival;  /* reference indexes in order of arrival, JFS_NONE: gone */
    VECTOR(part_item) parts;   /* by number; those that became empty are left until there are many */
    uint64_t version;
    uint64_t live_bytes;
    uint64_t owned_bytes;      /* bodies of the records of messages that it owns; of a lone header twice */
    uint32_t owned;            /* messages whose first_ref is one of its references: each counts in one queue */
    uint32_t owned_large;      /* of these, those whose record has only the header */
    uint32_t held;             /* entries of arrival that are not gone */
    uint32_t live_count;
    uint32_t delivering_count;
    uint32_t tail_from;        /* nothing of the tail lies before this position */
    uint32_t next_part;
    uint32_t empty_parts;
    uint8_t bound; /* not saved */
    uint64_t left; /* references that were taken away; not saved either */
} queue_item;

/* In the queue of a reference: it is not there yet, but in this one of `comings`. */
#define COMING ((uint32_t)1 << 31)

/* What a long transaction gives to one queue when it commits. */
typedef struct {
    queue_item queue;
    uint32_t next; /* of the same transaction; in a free slot: the next free one */
} coming_item;

/* ---- transactions and side records ---- */

typedef struct {
    jfs_operation op;
    uint32_t next; /* in the same transaction; in a free slot: the next free one */
} op_item;

typedef struct {
    int64_t tx_id; /* first: the index's key */
    uint64_t sequence; /* order of first appearance */
    uint32_t first_op; /* in a free slot: the next free one */
    uint32_t last_op;
    uint32_t hidden_op; /* up to this one its acknowledgements are hidden; JFS_NONE: none */
    uint32_t operations;
    uint32_t foreseen; /* operations that are done when what comes has arrived */
    uint32_t first_coming;
    uint32_t counted_slot; /* the file whose records `counted` counts */
    uint32_t counted;
    uint32_t file_slot; /* of the PREPARE */
    uint32_t extra_offset;
    uint32_t extra_bytes;
    uint8_t flags; /* JFS_TX_* */
    uint8_t used;
    uint8_t comes; /* it is long: what it gives to queues is made as it comes in */
} tx_item;

typedef struct {
    int64_t record_id; /* first: the index's key */
    jfs_operation op;  /* kind 0: gone */
} side_item;

struct jfs_state {
    VECTOR(message_item) messages;
    VECTOR(ref_item) refs;
    VECTOR(decor_item) decors; /* item 0 is never used */
    VECTOR(wide_item) wides;
    VECTOR(queue_item) queues;
    VECTOR(coming_item) comings;
    VECTOR(op_item) ops;
    VECTOR(tx_item) txs;
    VECTOR(side_item) sides;
    VECTOR(jfs_operation) page_changes; /* since they were taken; empty while they are lost */
    VECTOR(jfs_anomaly) anomalies;
    VECTOR(jfs_end) ends;
    VECTOR(uint32_t) pending; /* messages without a measure, perhaps twice; may name freed ones */
    VECTOR(expiry_item) expiries; /* a heap, the earliest first */
    VECTOR(schedule_item) schedules;
    item_index message_index;
    item_index wide_index;
    item_index queue_index;
    item_index tx_index;
    item_index side_index;
    item_index schedule_index;
    id_set deleted; /* until finish; then while anomalies are known, until the end of what is applied */
    uint32_t free_message;
    uint32_t free_ref;
    uint32_t free_decor; /* 0: none */
    uint32_t free_wide;
    uint32_t free_coming;
    uint32_t free_op;
    uint32_t undone_op; /* operations of long transactions that came to nothing, to be taken back bit by bit */
    uint32_t undone_last;
    uint32_t undone_coming;
    uint32_t free_tx;
    uint32_t free_schedule;
    uint32_t live_messages;
    uint32_t live_expiries; /* messages with MESSAGE_EXPIRES */
    uint32_t live_schedules;
    uint32_t live_refs;
    uint32_t live_sides;
    uint32_t open_txs;
    uint32_t last_queue; /* the slot found last: records of a queue come in runs */
    uint32_t unmeasured; /* messages without a measure */
    uint64_t side_version;
    uint64_t tx_sequence;
    uint64_t anomalies_seen;
    int64_t highest_id;
    uint8_t finished;
    uint8_t history; /* HISTORY_* */
    uint32_t followed_slot; /* of a history: no messages from this file on */
    uint8_t foresees; /* messages are taken in before their transaction commits */
    uint8_t page_changes_lost; /* nobody took them in time, or ever: all there is has to be looked at */
    uint8_t measure_all; /* no message was measured yet: `pending` is not kept */
};

static inline queue_item *queue_of_ref(const jfs_state *state, const ref_item *ref) {
    return ref->queue & COMING ? &state->comings.items[ref->queue & ~COMING].queue : &state->queues.items[ref->queue];
}

/* state_messages.c */
static inline uint64_t message_tail_bytes(const message_item *m) { return (uint64_t)m->tail_high << 32 | m->tail_low; }
static inline uint64_t message_file_bytes(const message_item *m) { return (uint64_t)m->file_high << 32 | m->file_low; }
/* Return the message with this id; JFS_NONE if it is not live. */
static inline uint32_t message_find(const jfs_state *state, int64_t id) {
    return index_find(&state->message_index, state->messages.items, sizeof(message_item), id);
}
uint32_t message_of_operation(const jfs_state *state, const jfs_operation *op);
jfs_status message_add(jfs_state *state, const jfs_operation *add);
void message_remove(jfs_state *state, uint32_t message);
jfs_status message_set_measure(jfs_state *state, uint32_t message, const jfs_measure *measure);

/* state_expiry.c */
jfs_status expiry_add(jfs_state *state, uint32_t message, int64_t expiration_ms); /* 0 or less: it does not */

/* state_schedules.c */
int64_t schedule_of(const jfs_state *state, uint32_t message); /* 0: it says nothing */
jfs_status schedule_add(jfs_state *state, uint32_t message, int64_t due_ms); /* instead of what was; 0 or less: nothing */
void schedule_remove(jfs_state *state, uint32_t message);

/* state_refs.c */
void message_own(jfs_state *state, const message_item *m);    /* after, */
void message_disown(jfs_state *state, const message_item *m); /* and before its first reference or its record change */
uint32_t ref_find(const jfs_state *state, uint32_t message, uint32_t queue);
jfs_status ref_add(jfs_state *state, uint32_t message, uint32_t queue);
void ref_remove(jfs_state *state, uint32_t ref);
jfs_status decor_allocate(jfs_state *state, ref_item *r);
jfs_status ref_decorate(jfs_state *state, uint32_t ref, int user_type, int64_t value);
/* What the message says of its schedule is known, or is another; it counts where no record says something else. */
jfs_status schedule_refs(jfs_state *state, uint32_t message, int64_t due_ms);
void ref_hide(jfs_state *state, uint32_t ref);
void ref_show(jfs_state *state, uint32_t ref);
jfs_status wide_add(jfs_state *state, uint32_t ref);

/* state_ref_lines.c */
uint64_t ref_line_bytes(const jfs_state *state, const ref_item *ref, int sealed, int64_t now_ms);
void ref_decor_values(const jfs_state *state, const ref_item *ref, int sealed, int64_t now_ms,
                      int32_t *delivery_count, int64_t *scheduled_ms);

/* state_queues.c */
jfs_status queue_slot(jfs_state *state, int64_t queue_id, uint32_t *slot);
uint32_t queue_find(jfs_state *state, int64_t queue_id);
jfs_status queue_append(jfs_state *state, queue_item *queue, uint32_t ref);
void queue_drop(jfs_state *state, queue_item *queue, const ref_item *ref);
void queue_compact(jfs_state *state, queue_item *queue);

/* state_parts.c */
part_item *part_find(queue_item *queue, uint32_t number);
void part_leave(jfs_state *state, queue_item *queue, ref_item *ref);
void parts_compact(queue_item *queue);

/* state_effects.c */
jfs_status effect_apply(jfs_state *state, const jfs_operation *effect);

/* state_anomalies.c */
jfs_status anomaly_add(jfs_state *state, uint32_t kind, int64_t a, int64_t b, uint32_t file_slot, uint32_t offset);
/* Forget the anomalies of messages in `deleted`. */
void anomalies_sweep(jfs_state *state);

/* state_coming.c */
jfs_status coming_take(jfs_state *state, uint32_t tx); /* the operation that the transaction got last */
jfs_status coming_arrive(jfs_state *state, tx_item *tx);
void coming_free(jfs_state *state, uint32_t *first);

/* state_history.c */
uint8_t history_effect(const jfs_record *event); /* JFS_ADD, JFS_UPDATE; 0: it has none */
jfs_status history_apply(jfs_state *state, const jfs_operation *effect);

/* state_tx.c */
jfs_status tx_record(jfs_state *state, uint32_t file_slot, const jfs_record *record, jfs_operation *operation);
jfs_status tx_finish(jfs_state *state);
jfs_status tx_restore(jfs_state *state, const tx_item *saved, const uint8_t *operations);

/* state_side.c */
jfs_status side_add(jfs_state *state, const jfs_operation *add);
jfs_status side_update(jfs_state *state, const jfs_operation *update);
void side_remove(jfs_state *state, int64_t record_id);
jfs_status side_compact(jfs_state *state);
void sides_sweep(jfs_state *state);

/* state_compact.c */
jfs_status state_compact(jfs_state *state);
void state_shrink(jfs_state *state); /* gives back memory beyond what is used; nothing moves to another index */

/* Gives out a list by the common rule: as many as fit, JFS_FULL if not all did. */
static inline jfs_status listed(uint32_t found, uint32_t capacity, uint32_t *count) {
    *count = found;
    return found > capacity ? JFS_FULL : JFS_OK;
}

#endif
