/* Records that are no messages: paging positions and counts, page transactions, duplicate ids, and unknown types.
 * They keep the order of the journal (of duplicate ids the newest count), so slots are not reused but closed up.
 */
#include "state_internal.h"

enum { HOLES_FREE = 64, CHANGES_KEPT = 1024 };

static uint32_t side_find(const jfs_state *state, int64_t record_id) {
    return index_find(&state->side_index, state->sides.items, sizeof(side_item), record_id);
}

static void changes_lost(jfs_state *state) {
    state->page_changes_lost = 1;
    state->page_changes.count = 0;
    VECTOR_SHRINK(&state->page_changes);
}

/* Keep a change for whoever follows what the journal says of pages. Where there is no room he looks at all of it. */
static void note_change(jfs_state *state, const jfs_operation *op, uint8_t kind) {
    JFS_ASSERT(kind == JFS_ADD || kind == JFS_UPDATE || kind == JFS_DELETE);
    if (state->page_changes_lost) return;
    if (op->user_type != TYPE_PAGE_TRANSACTION && op->user_type != TYPE_ACKNOWLEDGE_CURSOR && op->user_type != TYPE_PAGE_COMPLETE) return;
    if (state->page_changes.count >= JFS_PAGE_CHANGES_MAX || VECTOR_ROOM(&state->page_changes) != JFS_OK) {
        changes_lost(state);
        return;
    }
    state->page_changes.items[state->page_changes.count] = *op;
    state->page_changes.items[state->page_changes.count++].kind = kind;
}

jfs_status side_add(jfs_state *state, const jfs_operation *add) {
    JFS_ASSERT(state->live_sides <= state->sides.count);
    JFS_ASSERT(add->kind != 0);
    uint32_t side = side_find(state, add->record_id);
    jfs_status status = JFS_OK;
    state->side_version++;
    if (side != INDEX_NONE) {
        note_change(state, &state->sides.items[side].op, JFS_DELETE);
        note_change(state, add, JFS_ADD);
        state->sides.items[side].op = *add;
        return JFS_OK;
    }
    note_change(state, add, JFS_ADD);
    if (state->sides.count == state->sides.capacity &&
        state->sides.count - state->live_sides > state->live_sides / 2 + HOLES_FREE) {
        status = side_compact(state);
        if (status != JFS_OK) return status;
    }
    status = VECTOR_ROOM(&state->sides);
    if (status != JFS_OK) return status;
    side = state->sides.count++;
    state->sides.items[side].record_id = add->record_id;
    state->sides.items[side].op = *add;
    state->live_sides++;
    return index_add(&state->side_index, state->sides.items, sizeof(side_item), side);
}

/* Type 35 again: so many of the page transaction's messages are consumed. Of an unknown one: it was reclaimed. */
jfs_status side_update(jfs_state *state, const jfs_operation *update) {
    const uint32_t side = side_find(state, update->record_id);
    jfs_operation *op;
    if (side == INDEX_NONE) return JFS_OK;
    op = &state->sides.items[side].op;
    op->b = (int64_t)((uint64_t)op->b - (uint64_t)update->b);
    note_change(state, op, JFS_UPDATE);
    state->side_version++;
    return JFS_OK;
}

void side_remove(jfs_state *state, int64_t record_id) {
    const uint32_t side = side_find(state, record_id);
    if (side == INDEX_NONE) return;
    index_remove(&state->side_index, state->sides.items, sizeof(side_item), record_id);
    note_change(state, &state->sides.items[side].op, JFS_DELETE);
    state->sides.items[side].op.kind = 0;
    state->live_sides--;
    state->side_version++;
    while (state->sides.count > 0 && state->sides.items[state->sides.count - 1].op.kind == 0) state->sides.count--;
}

jfs_status side_compact(jfs_state *state) {
    JFS_ASSERT(state->live_sides <= state->sides.count);
    uint32_t to = 0;
    jfs_status status;
    for (uint32_t from = 0; from < state->sides.count; from++) {
        if (state->sides.items[from].op.kind != 0) state->sides.items[to++] = state->sides.items[from];
    }
    state->sides.count = to;
    index_clear(&state->side_index);
    status = index_resize(&state->side_index, state->sides.items, sizeof(side_item), to);
    for (uint32_t i = 0; i < to && status == JFS_OK; i++) {
        status = index_add(&state->side_index, state->sides.items, sizeof(side_item), i);
    }
    VECTOR_SHRINK(&state->sides);
    return status;
}

void sides_sweep(jfs_state *state) {
    for (uint32_t i = state->sides.count; i-- > 0;) {
        const side_item *const side = &state->sides.items[i];
        if (side->op.kind != 0 && id_set_has(&state->deleted, side->record_id)) side_remove(state, side->record_id);
    }
}

jfs_status jfs_state_side(const jfs_state *state, int user_type, jfs_operation *out, uint32_t capacity,
                          uint32_t *count) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < state->sides.count; i++) {
        const jfs_operation *const op = &state->sides.items[i].op;
        if (op->kind == 0 || (user_type != JFS_ANY_TYPE && op->user_type != user_type)) continue;
        if (found < capacity) out[found] = *op;
        found++;
    }
    return listed(found, capacity, count);
}

jfs_status jfs_state_page_changes(jfs_state *state, jfs_operation *out, uint32_t capacity, uint32_t *count,
                                  uint8_t *lost) {
    const uint32_t found = state->page_changes.count;
    *lost = state->page_changes_lost;
    if (listed(found, capacity, count) == JFS_FULL) return JFS_FULL;
    if (found > 0) memcpy(out, state->page_changes.items, found * sizeof *out);
    state->page_changes_lost = 0;
    state->page_changes.count = 0;
    if (state->page_changes.capacity > CHANGES_KEPT) VECTOR_SHRINK(&state->page_changes);
    return JFS_OK;
}
