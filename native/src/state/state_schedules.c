/* When messages say themselves that they are due, of those only that do. It counts in each queue of which no record says
 * when: a broker that compacts keeps the record of one queue only.
 */
#include "state_internal.h"

int64_t schedule_of(const jfs_state *state, uint32_t message) {
    JFS_ASSERT(message < state->messages.count);
    const message_item *const m = &state->messages.items[message];
    uint32_t found;
    if (!(m->state & MESSAGE_SCHEDULED)) return 0;
    found = index_find(&state->schedule_index, state->schedules.items, sizeof(schedule_item), m->id);
    return found == INDEX_NONE ? 0 : state->schedules.items[found].due_ms;
}

jfs_status schedule_add(jfs_state *state, uint32_t message, int64_t due_ms) {
    JFS_ASSERT(message < state->messages.count);
    JFS_ASSERT(state->messages.items[message].state & MESSAGE_USED);
    message_item *const m = &state->messages.items[message];
    uint32_t item = state->free_schedule;
    jfs_status status = JFS_OK;
    schedule_remove(state, message);
    if (due_ms <= 0) return JFS_OK;
    if (item != JFS_NONE) {
        state->free_schedule = (uint32_t)state->schedules.items[item].due_ms;
    } else {
        status = VECTOR_ROOM(&state->schedules);
        if (status != JFS_OK) return status;
        item = state->schedules.count++;
    }
    state->schedules.items[item] = (schedule_item){m->id, due_ms};
    m->state |= MESSAGE_SCHEDULED;
    state->live_schedules++;
    return index_add(&state->schedule_index, state->schedules.items, sizeof(schedule_item), item);
}

void schedule_remove(jfs_state *state, uint32_t message) {
    JFS_ASSERT(message < state->messages.count);
    message_item *const m = &state->messages.items[message];
    uint32_t item;
    if (!(m->state & MESSAGE_SCHEDULED)) return;
    m->state &= (uint8_t)~MESSAGE_SCHEDULED;
    item = index_find(&state->schedule_index, state->schedules.items, sizeof(schedule_item), m->id);
    if (item == INDEX_NONE) return;
    index_remove(&state->schedule_index, state->schedules.items, sizeof(schedule_item), m->id);
    state->schedules.items[item] = (schedule_item){0, state->free_schedule};
    state->free_schedule = item;
    state->live_schedules--;
}
