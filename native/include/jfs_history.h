/* All that was sent, in place of what is live: what a history is read into. */
#ifndef JFS_HISTORY_H
#define JFS_HISTORY_H

#include <stdint.h>

#include "jfs_state.h"

/* Before anything is applied: from here on messages stay in the queues that they came to, whatever became of them, and
 * messages in EVENT records, which are those that went to pages, count as well. What would be amiss in a journal is not
 * in a piece of its history.
 */
void jfs_history_begin(jfs_state *state);

/* Files from this slot on bring no messages, but places in queues and ends of those that there are, and ends of the
 * transactions that brought some.
 */
void jfs_history_follow(jfs_state *state, uint32_t first_slot);

/* Transactions that sent something in the files before those that are followed, and of which no record said yet how
 * they ended.
 */
uint32_t jfs_history_undecided(const jfs_state *state);

/* And from here on only ends. */
void jfs_history_end(jfs_state *state);

enum {
    JFS_END_CAME = 32,         /* it came to another queue of its address, later */
    JFS_END_ACKNOWLEDGED = 33, /* it left a queue */
    JFS_END_REMOVED = 0        /* its record was deleted; queue_id is 0 */
};

typedef struct {
    int64_t message_id;
    int64_t queue_id;
    uint32_t file_slot;
    uint32_t body_offset; /* of the record that says so; 0: it has no body */
    uint32_t kind;        /* JFS_END_* */
} jfs_end;

/* What became of messages, in the order of the records that say so. */
jfs_status jfs_history_ends(const jfs_state *state, jfs_end *out, uint32_t capacity, uint32_t *count);

/* Says of messages that are not measured when they were sent; of those that are there. */
void jfs_history_sent(jfs_state *state, const int64_t *ids, const int64_t *times_ms, uint32_t count);

/* What stays. A message is of the time at which it came: that of the latest timestamp in its file up to it, itself
 * included, but no later than slot_ms, which counts before any is said; below 0: nothing of that file stays. One that
 * compaction wrote is of its own time.
 */
typedef struct {
    int64_t from_ms; /* from here on, */
    int64_t to_ms;   /* up to before this */
    int64_t below_id;
    const int64_t *slot_ms; /* by file, as the next three */
    const uint8_t *slot_compacted;
    int64_t *first_ms;      /* filled in: the first timestamp above 0; 0: there is none */
    int64_t *last_ms;       /* and the latest time of a message, of those that go too; 0: there is none */
    uint32_t slots;
} jfs_history_range;

jfs_status jfs_history_keep(jfs_state *state, const jfs_history_range *range);

/* Puts the messages of each queue into the order of their ids: where compaction wrote some of them, their records lie
 * before those of others that came earlier. Before there are parts.
 */
jfs_status jfs_history_sort(jfs_state *state);

/* Removes messages by their ids. */
void jfs_history_drop(jfs_state *state, const int64_t *ids, uint32_t count);

/* A piece of the body of a large message. */
typedef struct {
    int64_t message_id;
    uint32_t body_offset;
    uint32_t body_bytes;
} jfs_piece;

/* Those among records that are of the messages `ids`, which ascend. */
jfs_status jfs_history_pieces(const jfs_record *records, uint32_t count, const int64_t *ids, uint32_t id_count,
                              jfs_piece *out, uint32_t capacity, uint32_t *found);

/* Indexes of those among records that are messages and say of which other one they are a copy; perhaps of more. */
jfs_status jfs_history_copies(const jfs_span *file, const jfs_record *records, uint32_t count, uint32_t *out,
                              uint32_t capacity, uint32_t *found);

/* Sets found[i] where a record that no compaction wrote adds the message ids[i]; ids ascend. */
void jfs_history_originals(const jfs_record *records, uint32_t count, const int64_t *ids, uint32_t id_count,
                           uint8_t *found);

/* Ids of messages that compaction wrote. */
jfs_status jfs_history_compacted(const jfs_record *records, uint32_t count, int64_t *out, uint32_t capacity,
                                 uint32_t *found);

#endif
