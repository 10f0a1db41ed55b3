/* The whole of a state compared with itself: each link both ways, each count against what it counts, each free list.
 * Tests and fuzzers call it after every step. It allocates nothing and changes nothing; it takes time for every item.
 */
#include "jfs_assert.h"
#include "state_internal.h"

/* The length of a chain through an array of `count` items; more than that for a chain that is broken or a circle. */
#define CHAIN(length, first, count, next)                                          \
    do {                                                                           \
        (length) = 0;                                                              \
        for (uint32_t at_ = (first); at_ != JFS_NONE; at_ = (next)) {              \
            if (at_ >= (count) || ++(length) > (count)) return "a chain is broken"; \
        }                                                                          \
    } while (0)

static const char *check_refs_of(const jfs_state *state, uint32_t message) {
    const message_item *const m = &state->messages.items[message];
    uint32_t refs = 0, prev = JFS_NONE;
    for (uint32_t ref = m->first_ref; ref != JFS_NONE; ref = state->refs.items[ref].next) {
        JFS_HOLDS(ref < state->refs.count && refs++ < state->refs.count);
        JFS_HOLDS(state->refs.items[ref].state != REF_FREE);
        JFS_HOLDS(state->refs.items[ref].message == message);
        JFS_HOLDS(state->refs.items[ref].prev == prev);
        prev = ref;
    }
    JFS_HOLDS(m->state & MESSAGE_WIDE ? m->refs == REFS_WIDE : m->refs == refs);
    return NULL;
}

static const char *check_messages(const jfs_state *state) {
    uint32_t used = 0, expire = 0, scheduled = 0, unmeasured = 0, free_ones;
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const m = &state->messages.items[i];
        const char *wrong;
        if (!(m->state & MESSAGE_USED)) continue;
        used++;
        expire += (m->state & MESSAGE_EXPIRES) != 0;
        scheduled += (m->state & MESSAGE_SCHEDULED) != 0;
        unmeasured += (m->state & MESSAGE_MEASURED) == 0;
        JFS_HOLDS(message_find(state, m->id) == i);
        JFS_HOLDS(!(m->state & MESSAGE_SCHEDULED) || schedule_of(state, i) > 0);
        wrong = check_refs_of(state, i);
        if (wrong != NULL) return wrong;
    }
    CHAIN(free_ones, state->free_message, state->messages.count, state->messages.items[at_].first_ref);
    JFS_HOLDS(used + free_ones == state->messages.count);
    JFS_HOLDS(used == state->live_messages);
    JFS_HOLDS(expire == state->live_expiries);
    JFS_HOLDS(expire <= state->expiries.count);
    JFS_HOLDS(scheduled == state->live_schedules);
    JFS_HOLDS(unmeasured == state->unmeasured);
    CHAIN(free_ones, state->free_schedule, state->schedules.count, (uint32_t)state->schedules.items[at_].due_ms);
    JFS_HOLDS(scheduled + free_ones == state->schedules.count);
    return NULL;
}

static const char *check_refs(const jfs_state *state) {
    uint32_t live = 0, used = 0, decors = 0, wides = 0, free_ones, free_decors = 0;
    for (uint32_t i = 0; i < state->refs.count; i++) {
        const ref_item *const r = &state->refs.items[i];
        if (r->state == REF_FREE) continue;
        used++;
        live += !(r->queue & COMING);
        JFS_HOLDS(r->message < state->messages.count);
        JFS_HOLDS(state->messages.items[r->message].state & MESSAGE_USED);
        JFS_HOLDS((r->queue & ~COMING) < (r->queue & COMING ? state->comings.count : state->queues.count));
        JFS_HOLDS(r->position < queue_of_ref(state, r)->arrival.count);
        JFS_HOLDS(queue_of_ref(state, r)->arrival.items[r->position] == i);
        JFS_HOLDS(r->part == 0 || r->state == REF_LIVE);
        JFS_HOLDS(r->decor == 0 || r->decor < state->decors.count);
        decors += r->decor != 0;
        if (!(state->messages.items[r->message].state & MESSAGE_WIDE)) continue;
        wides++;
        JFS_HOLDS(ref_find(state, r->message, r->queue) == i);
    }
    JFS_HOLDS(live == state->live_refs);
    CHAIN(free_ones, state->free_ref, state->refs.count, state->refs.items[at_].message);
    JFS_HOLDS(used + free_ones == state->refs.count);
    for (uint32_t at = state->free_decor; at != 0; at = (uint32_t)state->decors.items[at].delivery_count) {
        JFS_HOLDS(at < state->decors.count && ++free_decors < state->decors.count);
    }
    JFS_HOLDS(decors + free_decors + (state->decors.count > 0) == state->decors.count);
    CHAIN(free_ones, state->free_wide, state->wides.count, (uint32_t)state->wides.items[at_].key);
    JFS_HOLDS(wides + free_ones == state->wides.count);
    return NULL;
}

static const char *check_parts(const jfs_state *state, const queue_item *queue) {
    uint32_t empty = 0;
    for (uint32_t i = 0; i < queue->parts.count; i++) {
        const part_item *const part = &queue->parts.items[i];
        uint64_t bytes = 0;
        uint32_t live = 0;
        JFS_HOLDS(part->number > 0 && part->number < queue->next_part);
        JFS_HOLDS(i == 0 || queue->parts.items[i - 1].number < part->number);
        empty += part->live_count == 0;
        if (part->live_count == 0) continue;
        for (uint32_t at = part->first; at <= part->last && at < queue->arrival.count; at++) {
            const uint32_t ref = queue->arrival.items[at];
            if (ref == JFS_NONE || state->refs.items[ref].part != part->number) continue;
            live++;
            bytes += ref_line_bytes(state, &state->refs.items[ref], 1, 0);
        }
        JFS_HOLDS(live == part->live_count);
        JFS_HOLDS(bytes == part->live_bytes);
    }
    JFS_HOLDS(empty == queue->empty_parts);
    return NULL;
}

/* `slot`: what its references name it by. */
static const char *check_queue(const jfs_state *state, const queue_item *queue, uint32_t slot) {
    uint64_t live_bytes = 0, owned_bytes = 0;
    uint32_t held = 0, live = 0, owned = 0, owned_large = 0;
    JFS_HOLDS(queue->tail_from <= queue->arrival.count);
    for (uint32_t at = 0; at < queue->arrival.count; at++) {
        const uint32_t ref = queue->arrival.items[at];
        const message_item *m;
        const ref_item *r;
        if (ref == JFS_NONE) continue;
        JFS_HOLDS(ref < state->refs.count);
        r = &state->refs.items[ref];
        m = &state->messages.items[r->message];
        JFS_HOLDS(r->queue == slot && r->position == at && r->state != REF_FREE);
        JFS_HOLDS(at >= queue->tail_from || r->part != 0 || r->state != REF_LIVE);
        held++;
        live += r->state == REF_LIVE;
        live_bytes += r->state == REF_LIVE ? message_file_bytes(m) : 0;
        if (m->first_ref != ref) continue;
        owned++;
        owned_large += (m->source & JFS_SOURCE_CORE_LARGE) != 0;
        owned_bytes += (m->source & JFS_SOURCE_CORE_LARGE ? 2 : 1) * (uint64_t)m->body_bytes;
    }
    JFS_HOLDS(held == queue->held);
    JFS_HOLDS(live == queue->live_count);
    JFS_HOLDS(held - live == queue->delivering_count);
    JFS_HOLDS(live_bytes == queue->live_bytes);
    JFS_HOLDS(owned == queue->owned);
    JFS_HOLDS(owned_large == queue->owned_large);
    JFS_HOLDS(owned_bytes == queue->owned_bytes);
    return check_parts(state, queue);
}

static const char *check_comings(const jfs_state *state, uint32_t first, uint32_t *used) {
    for (uint32_t at = first; at != JFS_NONE; at = state->comings.items[at].next) {
        const char *wrong;
        JFS_HOLDS(at < state->comings.count && (*used)++ < state->comings.count);
        wrong = check_queue(state, &state->comings.items[at].queue, at | COMING);
        if (wrong != NULL) return wrong;
    }
    return NULL;
}

static const char *check_transactions(const jfs_state *state) {
    uint32_t used = 0, comings = 0, ops = 0, length;
    const char *wrong = check_comings(state, state->undone_coming, &comings);
    for (uint32_t i = 0; i < state->txs.count && wrong == NULL; i++) {
        const tx_item *const tx = &state->txs.items[i];
        if (!tx->used) continue;
        used++;
        JFS_HOLDS(index_find(&state->tx_index, state->txs.items, sizeof *tx, tx->tx_id) == i);
        CHAIN(length, tx->first_op, state->ops.count, state->ops.items[at_].next);
        JFS_HOLDS(length == tx->operations);
        JFS_HOLDS(tx->foreseen <= tx->operations && tx->counted <= tx->operations);
        JFS_HOLDS(tx->first_op == JFS_NONE || state->ops.items[tx->last_op].next == JFS_NONE);
        ops += length;
        wrong = check_comings(state, tx->first_coming, &comings);
    }
    if (wrong != NULL) return wrong;
    JFS_HOLDS(used == state->open_txs && used == state->tx_index.count);
    CHAIN(length, state->free_tx, state->txs.count, state->txs.items[at_].first_op);
    JFS_HOLDS(used + length == state->txs.count);
    CHAIN(length, state->undone_op, state->ops.count, state->ops.items[at_].next);
    ops += length;
    CHAIN(length, state->free_op, state->ops.count, state->ops.items[at_].next);
    JFS_HOLDS(ops + length == state->ops.count);
    CHAIN(length, state->free_coming, state->comings.count, state->comings.items[at_].next);
    JFS_HOLDS(comings + length == state->comings.count);
    return NULL;
}

static const char *check_sides(const jfs_state *state) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < state->sides.count; i++) {
        const side_item *const side = &state->sides.items[i];
        if (side->op.kind == 0) continue;
        live++;
        JFS_HOLDS(index_find(&state->side_index, state->sides.items, sizeof *side, side->record_id) == i);
    }
    JFS_HOLDS(live == state->live_sides && live == state->side_index.count);
    JFS_HOLDS(state->page_changes.count <= JFS_PAGE_CHANGES_MAX);
    for (uint32_t i = 1; i < state->expiries.count; i++) {
        JFS_HOLDS(state->expiries.items[(i - 1) / 2].expiration_ms <= state->expiries.items[i].expiration_ms);
    }
    return NULL;
}

const char *jfs_state_check(const jfs_state *state) {
    const char *wrong = check_messages(state);
    if (wrong == NULL) wrong = check_refs(state);
    for (uint32_t i = 0; i < state->queues.count && wrong == NULL; i++) {
        wrong = check_queue(state, &state->queues.items[i], i);
    }
    if (wrong == NULL) wrong = check_transactions(state);
    if (wrong == NULL) wrong = check_sides(state);
    if (wrong != NULL) return wrong;
    JFS_HOLDS(index_check(&state->message_index, state->messages.items, sizeof(message_item), state->messages.count));
    JFS_HOLDS(index_check(&state->wide_index, state->wides.items, sizeof(wide_item), state->wides.count));
    JFS_HOLDS(index_check(&state->queue_index, state->queues.items, sizeof(queue_item), state->queues.count));
    JFS_HOLDS(index_check(&state->tx_index, state->txs.items, sizeof(tx_item), state->txs.count));
    JFS_HOLDS(index_check(&state->side_index, state->sides.items, sizeof(side_item), state->sides.count));
    JFS_HOLDS(index_check(&state->schedule_index, state->schedules.items, sizeof(schedule_item), state->schedules.count));
    return NULL;
}
