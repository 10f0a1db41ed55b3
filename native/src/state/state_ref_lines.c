/* How long the line of a reference is: its message's line, with the delivery count and the schedule of this queue. */
#include "state_internal.h"

/* `,"deliveryCount":` and `,"scheduledTime":` */
enum { KEY_BYTES = 17, LINE_END_BYTES = 2 };

void ref_decor_values(const jfs_state *state, const ref_item *ref, int sealed, int64_t now_ms,
                      int32_t *delivery_count, int64_t *scheduled_ms) {
    JFS_ASSERT(ref->state != REF_FREE);
    JFS_ASSERT(ref->decor == 0 || ref->decor < state->decors.count);
    const decor_item *decor;
    *delivery_count = 0;
    *scheduled_ms = 0;
    if (ref->decor == 0) return;
    decor = &state->decors.items[ref->decor];
    if (sealed) {
        *delivery_count = decor->sealed_delivery_count;
        *scheduled_ms = decor->sealed_scheduled_ms;
    } else {
        *delivery_count = decor->delivery_count;
        *scheduled_ms = decor->scheduled_ms > now_ms ? decor->scheduled_ms : 0;
    }
}

static uint64_t number_bytes(int64_t value) {
    uint64_t digits = 1;
    while (value >= 10) {
        value /= 10;
        digits++;
    }
    return KEY_BYTES + digits;
}

uint64_t ref_line_bytes(const jfs_state *state, const ref_item *ref, int sealed, int64_t now_ms) {
    JFS_ASSERT(ref->message < state->messages.count);
    uint64_t bytes = message_tail_bytes(&state->messages.items[ref->message]) + LINE_END_BYTES;
    if (ref->decor != 0) {
        int32_t delivery_count;
        int64_t scheduled_ms;
        ref_decor_values(state, ref, sealed, now_ms, &delivery_count, &scheduled_ms);
        if (delivery_count > 0) bytes += number_bytes(delivery_count);
        if (scheduled_ms > 0) bytes += number_bytes(scheduled_ms);
    }
    return bytes;
}
