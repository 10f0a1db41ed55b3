/* The live set as flat bytes, so that mounting again replays only what came after.
 *
 * Layout: the head, then the arrays it counts, each padded to 8 bytes. Only what cannot be derived is kept: lists,
 * counts, sizes of parts and the hash indexes are made again. The caller guards the bytes with a checksum, and a
 * checkpoint that does not fit together is refused here: no index in it is believed.
 */
#include "checkpoint.h"

static void head_fill(const jfs_state *state, saved_head *head) {
    memset(head, 0, sizeof *head);
    memcpy(head->magic, checkpoint_magic, sizeof checkpoint_magic);
    head->layout_version = LAYOUT_VERSION;
    head->item_bytes = ITEM_BYTES;
    head->messages = state->live_messages;
    head->refs = state->live_refs;
    head->queues = state->queues.count;
    head->txs = state->open_txs;
    head->sides = state->live_sides;
    head->anomalies = state->anomalies.count;
    head->expiries = state->live_expiries;
    head->schedules = state->live_schedules;
    head->anomalies_seen = state->anomalies_seen;
    head->side_version = state->side_version;
    head->highest_id = state->highest_id;
    for (uint32_t i = 0; i < state->queues.count; i++) {
        const queue_item *const queue = &state->queues.items[i];
        for (uint32_t k = 0; k < queue->parts.count; k++) head->parts += queue->parts.items[k].live_count > 0;
    }
    for (uint32_t i = 0; i < state->txs.count; i++) {
        if (state->txs.items[i].used) head->operations += state->txs.items[i].operations;
    }
}

uint64_t jfs_state_save_bytes(const jfs_state *state) {
    saved_head head;
    head_fill(state, &head);
    return place(&head).end;
}


static void put(uint8_t **to, const void *item, size_t bytes) {
    memcpy(*to, item, bytes);
    *to += bytes;
}

/* numbers[index in the array] = number among the saved ones */
static void save_messages(const jfs_state *state, uint8_t *to, uint32_t *numbers) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const m = &state->messages.items[i];
        const saved_message saved = {.id = m->id,
                                     .timestamp_ms = m->timestamp_ms,
                                     .tail_bytes = message_tail_bytes(m),
                                     .file_bytes = message_file_bytes(m),
                                     .body_offset = m->body_offset,
                                     .body_bytes = m->body_bytes,
                                     .file_slot = m->file_slot,
                                     .priority = m->priority,
                                     .suffix = m->suffix,
                                     .flags = m->flags,
                                     .source = m->source,
                                     .state = m->state & (uint8_t)~(MESSAGE_WIDE | MESSAGE_EXPIRES | MESSAGE_SCHEDULED)};
        if (!(m->state & MESSAGE_USED)) continue;
        numbers[i] = number++;
        put(&to, &saved, sizeof saved);
    }
}

static void save_ref(const jfs_state *state, const ref_item *r, uint8_t **to, const uint32_t *numbers) {
    saved_ref saved;
    memset(&saved, 0, sizeof saved);
    saved.message = numbers[r->message];
    saved.part = r->part;
    saved.state = r->state;
    if (r->decor != 0) {
        const decor_item *const decor = &state->decors.items[r->decor];
        saved.scheduled_ms = decor->scheduled_ms;
        saved.sealed_scheduled_ms = decor->sealed_scheduled_ms;
        saved.delivery_count = decor->delivery_count;
        saved.sealed_delivery_count = decor->sealed_delivery_count;
    }
    put(to, &saved, sizeof saved);
}

static void save_queues(const jfs_state *state, uint8_t *out, const places *at, const uint32_t *numbers) {
    uint8_t *refs = out + at->refs, *queues = out + at->queues, *parts = out + at->parts;
    for (uint32_t i = 0; i < state->queues.count; i++) {
        const queue_item *const queue = &state->queues.items[i];
        saved_queue saved = {.queue_id = queue->queue_id,
                             .version = queue->version,
                             .refs = queue->held,
                             .next_part = queue->next_part};
        for (uint32_t k = 0; k < queue->parts.count; k++) {
            const saved_part part = {.mtime_ms = queue->parts.items[k].mtime_ms, .number = queue->parts.items[k].number};
            if (queue->parts.items[k].live_count == 0) continue;
            saved.parts++;
            put(&parts, &part, sizeof part);
        }
        for (uint32_t k = 0; k < queue->arrival.count; k++) {
            const uint32_t ref = queue->arrival.items[k];
            if (ref != JFS_NONE) save_ref(state, &state->refs.items[ref], &refs, numbers);
        }
        put(&queues, &saved, sizeof saved);
    }
}

static void save_rest(const jfs_state *state, uint8_t *out, const places *at) {
    uint8_t *txs = out + at->txs, *operations = out + at->operations, *sides = out + at->sides;
    for (uint32_t i = 0; i < state->txs.count; i++) {
        const tx_item *const tx = &state->txs.items[i];
        const saved_tx saved = {.tx_id = tx->tx_id,
                                .sequence = tx->sequence,
                                .operations = tx->operations,
                                .counted_slot = tx->counted_slot,
                                .counted = tx->counted,
                                .file_slot = tx->file_slot,
                                .extra_offset = tx->extra_offset,
                                .extra_bytes = tx->extra_bytes,
                                .flags = tx->flags};
        if (!tx->used) continue;
        put(&txs, &saved, sizeof saved);
        for (uint32_t op = tx->first_op; op != JFS_NONE; op = state->ops.items[op].next) {
            put(&operations, &state->ops.items[op].op, sizeof(jfs_operation));
        }
    }
    for (uint32_t i = 0; i < state->sides.count; i++) {
        if (state->sides.items[i].op.kind != 0) put(&sides, &state->sides.items[i].op, sizeof(jfs_operation));
    }
    if (state->anomalies.count > 0) {
        memcpy(out + at->anomalies, state->anomalies.items, state->anomalies.count * sizeof(jfs_anomaly));
    }
}

static int by_message(const void *a, const void *b) {
    saved_time one, other;
    memcpy(&one, a, sizeof one);
    memcpy(&other, b, sizeof other);
    return one.message < other.message ? -1 : one.message > other.message;
}

/* By message: a heap may be in many orders. */
static void save_expiries(const jfs_state *state, uint8_t *to, const uint32_t *numbers) {
    uint8_t *const from = to;
    for (uint32_t i = 0; i < state->expiries.count; i++) {
        const expiry_item *const item = &state->expiries.items[i];
        const uint32_t message = message_find(state, item->message_id);
        if (message == JFS_NONE) continue;
        put(&to, &(saved_time){.time_ms = item->expiration_ms, .message = numbers[message]}, sizeof(saved_time));
    }
    qsort(from, (size_t)(to - from) / sizeof(saved_time), sizeof(saved_time), by_message);
}

static void save_schedules(const jfs_state *state, uint8_t *to, const uint32_t *numbers) {
    for (uint32_t i = 0; i < state->messages.count && state->live_schedules > 0; i++) {
        saved_time saved = {.time_ms = schedule_of(state, i)};
        if (saved.time_ms == 0) continue;
        saved.message = numbers[i];
        put(&to, &saved, sizeof saved);
    }
}

jfs_status jfs_state_save(const jfs_state *state, uint8_t *out, uint64_t capacity) {
    saved_head head;
    places at;
    uint32_t *numbers;
    if (!state->finished) return JFS_RANGE;
    head_fill(state, &head);
    at = place(&head);
    if (capacity < at.end) return JFS_FULL;
    numbers = malloc(((size_t)state->messages.count + 1) * sizeof *numbers);
    if (numbers == NULL) return JFS_NO_MEMORY;
    memset(out, 0, (size_t)at.end);
    memcpy(out, &head, sizeof head);
    save_messages(state, out + at.messages, numbers);
    save_queues(state, out, &at, numbers);
    save_rest(state, out, &at);
    save_expiries(state, out + at.expiries, numbers);
    save_schedules(state, out + at.schedules, numbers);
    free(numbers);
    return JFS_OK;
}
