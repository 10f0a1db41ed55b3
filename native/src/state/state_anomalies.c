/* Records that refer to nothing known: noted, and forgotten when their message turns out to be deleted. */
#include "state_internal.h"

jfs_status anomaly_add(jfs_state *state, uint32_t kind, int64_t a, int64_t b, uint32_t file_slot, uint32_t offset) {
    jfs_status status = JFS_OK;
    if (state->history && kind != JFS_ANOMALY_IN_DAMAGE && kind != JFS_ANOMALY_SHORT_RECORD) return JFS_OK;
    state->anomalies_seen++;
    /* Most turn out to be ends of messages whose beginnings were reclaimed: what are too many is seen afterwards. */
    status = VECTOR_ROOM(&state->anomalies);
    if (status == JFS_OK) state->anomalies.items[state->anomalies.count++] = (jfs_anomaly){a, b, kind, file_slot, offset};
    return status;
}

void anomalies_sweep(jfs_state *state) {
    uint32_t to = 0;
    for (uint32_t i = 0; i < state->anomalies.count; i++) {
        const jfs_anomaly *const anomaly = &state->anomalies.items[i];
        /* What a deleted message's records lacked does not matter: its first records were reclaimed. */
        if (anomaly->kind <= JFS_ANOMALY_ACK_WITHOUT_REF && id_set_has(&state->deleted, anomaly->a)) continue;
        state->anomalies.items[to++] = *anomaly;
    }
    state->anomalies_seen -= state->anomalies.count - to;
    state->anomalies.count = to;
}
