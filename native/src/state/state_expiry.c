/* Messages that expire: a heap by time, of those only that ever will. What left the state otherwise is dropped from it
 * when it comes to the top, or when it is more than what is live.
 */
#include "state_internal.h"

enum { DEAD_MAX = 1024 };

static void swap(expiry_item *a, expiry_item *b) {
    const expiry_item held = *a;
    *a = *b;
    *b = held;
}

static void sift_up(expiry_item *items, uint32_t at) {
    while (at > 0 && items[at].expiration_ms < items[(at - 1) / 2].expiration_ms) {
        swap(&items[at], &items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static void sift_down(expiry_item *items, uint32_t count, uint32_t at) {
    JFS_ASSERT(at < count || count == 0);
    for (;;) {
        const uint64_t left = 2 * (uint64_t)at + 1;
        uint32_t least = at;
        if (left < count && items[left].expiration_ms < items[least].expiration_ms) least = (uint32_t)left;
        if (left + 1 < count && items[left + 1].expiration_ms < items[least].expiration_ms) least = (uint32_t)left + 1;
        if (least == at) return;
        swap(&items[at], &items[least]);
        at = least;
    }
}

static int is_live(const jfs_state *state, const expiry_item *item) {
    return message_find(state, item->message_id) != JFS_NONE;
}

static void drop_dead(jfs_state *state) {
    uint32_t to = 0;
    for (uint32_t i = 0; i < state->expiries.count; i++) {
        if (is_live(state, &state->expiries.items[i])) state->expiries.items[to++] = state->expiries.items[i];
    }
    state->expiries.count = to;
    for (uint32_t i = to / 2; i-- > 0;) sift_down(state->expiries.items, to, i);
}

jfs_status expiry_add(jfs_state *state, uint32_t message, int64_t expiration_ms) {
    JFS_ASSERT(message < state->messages.count);
    JFS_ASSERT(state->live_expiries <= state->expiries.count);
    message_item *const m = &state->messages.items[message];
    jfs_status status;
    if (expiration_ms <= 0 || (m->state & MESSAGE_EXPIRES)) return JFS_OK;
    if (state->expiries.count > 2 * (uint64_t)state->live_expiries + DEAD_MAX) drop_dead(state);
    status = VECTOR_ROOM(&state->expiries);
    if (status != JFS_OK) return status;
    state->expiries.items[state->expiries.count] = (expiry_item){expiration_ms, m->id};
    sift_up(state->expiries.items, state->expiries.count++);
    m->state |= MESSAGE_EXPIRES;
    state->live_expiries++;
    return JFS_OK;
}

static void pop(jfs_state *state) {
    JFS_ASSERT(state->expiries.count > 0);
    state->expiries.items[0] = state->expiries.items[--state->expiries.count];
    sift_down(state->expiries.items, state->expiries.count, 0);
}

jfs_status jfs_state_expired(jfs_state *state, int64_t now_ms, int64_t *out, uint32_t capacity, uint32_t *count) {
    const expiry_item *const items = state->expiries.items;
    uint32_t waiting[64]; /* two of each level of the heap */
    uint32_t depth = 0, found = 0;
    while (state->expiries.count > 0 && !is_live(state, &items[0])) pop(state);
    if (state->expiries.count > 0) waiting[depth++] = 0;
    while (depth > 0) {
        const uint32_t at = waiting[--depth];
        const uint64_t left = 2 * (uint64_t)at + 1;
        if (items[at].expiration_ms > now_ms) continue;
        if (is_live(state, &items[at])) {
            if (found < capacity) out[found] = items[at].message_id;
            found++;
        }
        if (left < state->expiries.count) waiting[depth++] = (uint32_t)left;
        if (left + 1 < state->expiries.count) waiting[depth++] = (uint32_t)left + 1;
    }
    return listed(found, capacity, count);
}
