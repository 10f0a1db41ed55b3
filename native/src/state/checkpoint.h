/* Between checkpoint_save.c and checkpoint_load.c: the layout of a checkpoint. */
#ifndef JFS_CHECKPOINT_H
#define JFS_CHECKPOINT_H

#include "state_internal.h"

enum { LAYOUT_VERSION = 3 };

/* Parts of a queue whose numbers come near the end are numbered anew, in another generation. */
static const uint32_t next_part_max = UINT32_MAX - (1U << 20);

static const char checkpoint_magic[8] = {'j', 'f', 's', 'l', 'i', 'v', 'e', '\n'};

typedef struct {
    char magic[8];
    uint32_t layout_version;
    uint32_t item_bytes; /* sum over the saved structs: another build's are refused */
    uint32_t messages;
    uint32_t refs;
    uint32_t queues;
    uint32_t parts;
    uint32_t txs;
    uint32_t operations;
    uint32_t sides;
    uint32_t anomalies;
    uint32_t expiries;
    uint32_t schedules;
    uint64_t anomalies_seen;
    uint64_t side_version;
    int64_t highest_id;
} saved_head;

typedef struct {
    int64_t id;
    int64_t timestamp_ms;
    uint64_t tail_bytes;
    uint64_t file_bytes;
    uint32_t body_offset;
    uint32_t body_bytes;
    uint32_t file_slot;
    uint8_t priority;
    uint8_t suffix;
    uint8_t flags;
    uint8_t source;
    uint8_t state;
    uint8_t reserved[7];
} saved_message;

/* References stand in order of arrival, queue by queue. */
typedef struct {
    int64_t scheduled_ms;
    int64_t sealed_scheduled_ms;
    int32_t delivery_count;
    int32_t sealed_delivery_count;
    uint32_t message; /* number among the saved ones */
    uint32_t part;
    uint32_t state;
    uint32_t reserved;
} saved_ref;

typedef struct {
    int64_t queue_id;
    uint64_t version;
    uint32_t refs;
    uint32_t parts;
    uint32_t next_part;
    uint32_t reserved;
} saved_queue;

typedef struct {
    int64_t mtime_ms;
    uint32_t number;
    uint32_t reserved;
} saved_part;

typedef struct {
    int64_t tx_id;
    uint64_t sequence;
    uint32_t operations;
    uint32_t counted_slot;
    uint32_t counted;
    uint32_t file_slot;
    uint32_t extra_offset;
    uint32_t extra_bytes;
    uint32_t flags;
    uint32_t reserved;
} saved_tx;

/* When a message is over, or due. */
typedef struct {
    int64_t time_ms;
    uint32_t message; /* number among the saved ones */
    uint32_t reserved;
} saved_time;

enum {
    ITEM_BYTES = sizeof(saved_head) + sizeof(saved_message) + sizeof(saved_ref) + sizeof(saved_queue) +
                 sizeof(saved_part) + sizeof(saved_tx) + sizeof(jfs_operation) + sizeof(jfs_anomaly) +
                 sizeof(saved_time)
};

static inline uint64_t padded(uint64_t bytes) { return (bytes + 7) & ~(uint64_t)7; }

/* Where each array begins; the last one is the end. */
typedef struct {
    uint64_t messages, refs, queues, parts, txs, operations, sides, anomalies, expiries, schedules, end;
} places;

static inline places place(const saved_head *head) {
    places at;
    at.messages = padded(sizeof *head);
    at.refs = at.messages + padded(head->messages * (uint64_t)sizeof(saved_message));
    at.queues = at.refs + padded(head->refs * (uint64_t)sizeof(saved_ref));
    at.parts = at.queues + padded(head->queues * (uint64_t)sizeof(saved_queue));
    at.txs = at.parts + padded(head->parts * (uint64_t)sizeof(saved_part));
    at.operations = at.txs + padded(head->txs * (uint64_t)sizeof(saved_tx));
    at.sides = at.operations + padded(head->operations * (uint64_t)sizeof(jfs_operation));
    at.anomalies = at.sides + padded(head->sides * (uint64_t)sizeof(jfs_operation));
    at.expiries = at.anomalies + padded(head->anomalies * (uint64_t)sizeof(jfs_anomaly));
    at.schedules = at.expiries + padded(head->expiries * (uint64_t)sizeof(saved_time));
    at.end = at.schedules + padded(head->schedules * (uint64_t)sizeof(saved_time));
    return at;
}

#endif
