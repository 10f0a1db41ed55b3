/* What was sent, and what became of it. */
#include "jfs_guard.h"
#include "jfs_history.h"
#include "state_internal.h"

void jfs_history_begin(jfs_state *state) {
    state->history = HISTORY_TAKES;
    state->followed_slot = UINT32_MAX;
}

void jfs_history_follow(jfs_state *state, uint32_t first_slot) { state->followed_slot = first_slot; }

static int sent_before(const jfs_state *state, const tx_item *tx) {
    if (!tx->used || (tx->flags & JFS_TX_ENDED)) return 0;
    for (uint32_t op = tx->first_op; op != JFS_NONE; op = state->ops.items[op].next) {
        const jfs_operation *const one = &state->ops.items[op].op;
        if (one->file_slot >= state->followed_slot) return 0; /* operations are in the order of files */
        if (one->user_type == TYPE_LARGE_MESSAGE || one->user_type == TYPE_MESSAGE) return 1;
    }
    return 0;
}

uint32_t jfs_history_undecided(const jfs_state *state) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < state->txs.count; i++) found += (uint32_t)sent_before(state, &state->txs.items[i]);
    return found;
}

void jfs_history_end(jfs_state *state) { state->history = HISTORY_ENDS; }

static jfs_status note_end(jfs_state *state, const jfs_operation *op, uint32_t kind) {
    const jfs_status status = VECTOR_ROOM(&state->ends);
    if (status != JFS_OK) return status;
    state->ends.items[state->ends.count++] =
        (jfs_end){op->record_id, kind == JFS_END_REMOVED ? 0 : op->a, op->file_slot, op->body_offset, kind};
    return JFS_OK;
}

uint8_t history_effect(const jfs_record *record) {
    switch (record->user_type) {
        case TYPE_LARGE_MESSAGE:
        case TYPE_MESSAGE: return JFS_ADD;
        case TYPE_ADD_REFERENCE: return JFS_UPDATE;
        default: return 0;
    }
}

jfs_status history_apply(jfs_state *state, const jfs_operation *op) {
    const int adds = op->user_type == TYPE_LARGE_MESSAGE || op->user_type == TYPE_MESSAGE;
    const uint32_t message = message_find(state, op->record_id);
    uint32_t slot;
    jfs_status status = JFS_OK;
    if (op->kind == JFS_DELETE) return message == JFS_NONE ? JFS_OK : note_end(state, op, JFS_END_REMOVED);
    if (adds) {
        const int taken = state->history == HISTORY_TAKES && op->file_slot < state->followed_slot;
        return taken ? message_add(state, op) : JFS_OK;
    }
    if (message == JFS_NONE) return JFS_OK;
    if (op->user_type == JFS_END_ACKNOWLEDGED) return note_end(state, op, JFS_END_ACKNOWLEDGED);
    if (op->user_type != TYPE_ADD_REFERENCE) return JFS_OK;
    if (state->history == HISTORY_ENDS) return note_end(state, op, JFS_END_CAME);
    status = queue_slot(state, op->a, &slot);
    return status == JFS_OK ? ref_add(state, message, slot) : status;
}

jfs_status jfs_history_ends(const jfs_state *state, jfs_end *out, uint32_t capacity, uint32_t *count) {
    for (uint32_t i = 0; i < state->ends.count && i < capacity; i++) out[i] = state->ends.items[i];
    return listed(state->ends.count, capacity, count);
}

void jfs_history_sent(jfs_state *state, const int64_t *ids, const int64_t *times_ms, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t message = message_find(state, ids[i]);
        if (message != JFS_NONE) state->messages.items[message].timestamp_ms = times_ms[i];
    }
}

typedef struct {
    uint64_t place; /* file and offset */
    uint32_t message;
} placed;

static int by_place(const void *left, const void *right) {
    const placed *const a = left, *const b = right;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* When a message came; messages are asked for in the order of their places. */
static int64_t came_ms(const message_item *m, const jfs_history_range *range) {
    const int64_t of_file = range->slot_ms[m->file_slot];
    const int64_t said = m->timestamp_ms < of_file ? m->timestamp_ms : of_file;
    int64_t *const last = &range->last_ms[m->file_slot];
    if (range->first_ms[m->file_slot] == 0 && m->timestamp_ms > 0) range->first_ms[m->file_slot] = m->timestamp_ms;
    if (said > *last) *last = said;
    if (range->slot_compacted[m->file_slot]) return said > 0 ? said : of_file;
    return *last > 0 ? *last : of_file;
}

jfs_status jfs_history_keep(jfs_state *state, const jfs_history_range *range) {
    placed *const order = malloc(((size_t)state->live_messages + 1) * sizeof *order);
    uint32_t count = 0;
    if (order == NULL) return JFS_NO_MEMORY;
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const m = &state->messages.items[i];
        if (!(m->state & MESSAGE_USED)) continue;
        order[count++] = (placed){(uint64_t)m->file_slot << 32 | m->body_offset, i};
    }
    qsort(order, count, sizeof *order, by_place);
    for (uint32_t i = 0; i < count; i++) {
        const message_item *const m = &state->messages.items[order[i].message];
        const int taken = m->file_slot < range->slots && range->slot_ms[m->file_slot] >= 0;
        const int64_t time_ms = taken ? came_ms(m, range) : 0;
        if (taken && m->id < range->below_id && time_ms >= range->from_ms && time_ms < range->to_ms) continue;
        message_remove(state, order[i].message);
    }
    free(order);
    return JFS_OK;
}

static jfs_status sort_queue(jfs_state *state, queue_item *queue) {
    placed *const order = malloc(((size_t)queue->arrival.count + 1) * sizeof *order);
    uint32_t count = 0;
    if (order == NULL) return JFS_NO_MEMORY;
    for (uint32_t i = 0; i < queue->arrival.count; i++) {
        const uint32_t ref = queue->arrival.items[i];
        if (ref == JFS_NONE) continue;
        order[count++] = (placed){(uint64_t)state->messages.items[state->refs.items[ref].message].id, ref};
    }
    qsort(order, count, sizeof *order, by_place);
    for (uint32_t i = 0; i < count; i++) {
        queue->arrival.items[i] = order[i].message;
        state->refs.items[order[i].message].position = i;
    }
    queue->arrival.count = count;
    free(order);
    return JFS_OK;
}

jfs_status jfs_history_sort(jfs_state *state) {
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < state->queues.count && status == JFS_OK; i++) {
        status = sort_queue(state, &state->queues.items[i]);
    }
    return status;
}

void jfs_history_drop(jfs_state *state, const int64_t *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t message = message_find(state, ids[i]);
        if (message != JFS_NONE) message_remove(state, message);
    }
}

/* Where it is among ids that ascend; `count`: it is not. */
static uint32_t place_among(int64_t id, const int64_t *ids, uint32_t count) {
    uint32_t from = 0, to = count;
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (ids[middle] < id) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from < count && ids[from] == id ? from : count;
}

jfs_status jfs_history_pieces(const jfs_record *records, uint32_t count, const int64_t *ids, uint32_t id_count,
                              jfs_piece *out, uint32_t capacity, uint32_t *found) {
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; i++) {
        const jfs_record *const record = &records[i];
        if (record->kind != JFS_EVENT || record->user_type != TYPE_LARGE_MESSAGE_BODY) continue;
        if (place_among(record->record_id, ids, id_count) == id_count) continue;
        if (there < capacity) out[there] = (jfs_piece){record->record_id, record->body_offset, record->body_bytes};
        there++;
    }
    return listed(there, capacity, found);
}

static int adds_message(const jfs_record *record) {
    return record->kind <= JFS_UPDATE_TX && history_effect(record) == JFS_ADD;
}

void jfs_history_originals(const jfs_record *records, uint32_t count, const int64_t *ids, uint32_t id_count,
                           uint8_t *found) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at;
        if (!adds_message(&records[i]) || records[i].compact_count > 0) continue;
        at = place_among(records[i].record_id, ids, id_count);
        if (at < id_count) found[at] = 1;
    }
}

jfs_status jfs_history_compacted(const jfs_record *records, uint32_t count, int64_t *out, uint32_t capacity,
                                 uint32_t *found) {
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!adds_message(&records[i]) || records[i].compact_count <= 0) continue;
        if (there < capacity) out[there] = records[i].record_id;
        there++;
    }
    return listed(there, capacity, found);
}

/* The names of the notes, as core and AMQP messages have them. */
static const char CORE_NOTE[] = "_AMQ_ORIG_MESSAGE_ID";
static const char AMQP_NOTE[] = "x-opt-ORIG-MESSAGE-ID";
enum { CORE_NOTE_CHARS = sizeof CORE_NOTE - 1, AMQP_NOTE_CHARS = sizeof AMQP_NOTE - 1 };

static int has_bytes(const uint8_t *in, uint64_t in_bytes, const uint8_t *wanted, uint64_t wanted_bytes) {
    const uint8_t *at = in;
    while (in_bytes >= wanted_bytes) {
        const uint8_t *const next = memchr(at, wanted[0], in_bytes - wanted_bytes + 1);
        if (next == NULL) return 0;
        if (memcmp(next, wanted, wanted_bytes) == 0) return 1;
        in_bytes -= (uint64_t)(next + 1 - at);
        at = next + 1;
    }
    return 0;
}

typedef struct {
    const jfs_span *file;
    const jfs_record *records;
    uint32_t count;
    uint32_t *out;
    uint32_t capacity;
    uint32_t found;
} copies_job;

static jfs_status find_copies(void *context) {
    copies_job *const job = context;
    uint8_t core_note[2 * CORE_NOTE_CHARS];
    for (uint32_t i = 0; i < CORE_NOTE_CHARS; i++) {
        core_note[2 * i] = (uint8_t)CORE_NOTE[i];
        core_note[2 * i + 1] = 0;
    }
    for (uint32_t i = 0; i < job->count; i++) {
        const jfs_record *const record = &job->records[i];
        const uint8_t *const body = job->file->bytes + record->body_offset;
        if (!adds_message(record)) continue;
        if ((uint64_t)record->body_offset + record->body_bytes > job->file->size_bytes) return JFS_RANGE;
        if (!has_bytes(body, record->body_bytes, core_note, sizeof core_note) &&
            !has_bytes(body, record->body_bytes, (const uint8_t *)AMQP_NOTE, AMQP_NOTE_CHARS)) {
            continue;
        }
        if (job->found < job->capacity) job->out[job->found] = i;
        job->found++;
    }
    return JFS_OK;
}

jfs_status jfs_history_copies(const jfs_span *file, const jfs_record *records, uint32_t count, uint32_t *out,
                              uint32_t capacity, uint32_t *found) {
    copies_job job = {file, records, count, out, capacity, 0};
    const jfs_status status = jfs_guarded(find_copies, &job);
    return status == JFS_OK ? listed(job.found, capacity, found) : status;
}
