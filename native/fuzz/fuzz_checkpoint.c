/* Fuzz target: a checkpoint as it lies on the disk, hostile or not, and everything that is asked of what it gives.
 *
 * Input: the bytes of jfs_state_save(). The checksum around them is the caller's and holds for any bytes here.
 */
#include "fuzz.h"
#include "jfs_state.h"

enum { ASK_MAX = 64, FILES_MAX = 16 };

static void ask_queue(jfs_state *state, uint32_t slot) {
    const jfs_line_options options = {.prefix_bytes = 12, .now_ms = 1, .sealed = 1};
    uint32_t refs[ASK_MAX], count = 0, found = 0, live = 0;
    jfs_part_info parts[ASK_MAX];
    uint64_t starts[ASK_MAX + 1];
    jfs_queue_info info;
    int64_t oldest;
    FUZZ_CHECK(jfs_state_queue(state, slot, &info) == JFS_OK);
    (void)jfs_state_refs(state, slot, JFS_ORDER_DELIVERY, JFS_INCLUDE_LIVE, refs, ASK_MAX, &live);
    FUZZ_CHECK(live == info.live_count);
    (void)jfs_state_oldest(state, slot, &oldest);
    (void)jfs_state_scheduled(state, slot, 0, refs, ASK_MAX, &count);
    (void)jfs_state_parts(state, slot, parts, ASK_MAX, &count);
    for (uint32_t i = 0; i < count && i < ASK_MAX; i++) {
        FUZZ_CHECK(i == 0 || parts[i - 1].number < parts[i].number);
        (void)jfs_state_part_refs(state, slot, parts[i].number, refs, ASK_MAX, &found);
        FUZZ_CHECK(found == parts[i].live_count);
        if (found > ASK_MAX) found = ASK_MAX;
        FUZZ_CHECK(jfs_state_line_starts(state, refs, found, &options, starts) == JFS_OK);
    }
}

static void ask_everything(jfs_state *state) {
    jfs_queue_info queues[ASK_MAX];
    jfs_tx_info transactions[ASK_MAX];
    jfs_operation operations[ASK_MAX];
    jfs_anomaly anomalies[ASK_MAX];
    uint32_t count = 0, found = 0;
    (void)jfs_state_queues(state, queues, ASK_MAX, &count);
    for (uint32_t slot = 0; slot < count && slot < ASK_MAX; slot++) ask_queue(state, slot);
    (void)jfs_state_transactions(state, transactions, ASK_MAX, &count);
    for (uint32_t i = 0; i < count && i < ASK_MAX; i++) {
        (void)jfs_state_operations(state, transactions[i].tx_id, operations, ASK_MAX, &found);
        FUZZ_CHECK(found == transactions[i].operations);
    }
    (void)jfs_state_side(state, JFS_ANY_TYPE, operations, ASK_MAX, &count);
    (void)jfs_state_anomalies(state, anomalies, ASK_MAX, &count);
}

/* What lies within nothing cannot be read; lines of what lies within these bytes can. */
static void read_lines(const jfs_state *state, const uint8_t *data, size_t size) {
    const jfs_line_options options = {.prefix_bytes = 12, .now_ms = 1, .sealed = 1};
    uint64_t ends[FILES_MAX];
    jfs_span files[FILES_MAX];
    uint32_t refs[ASK_MAX], count = 0;
    jfs_line lines[ASK_MAX];
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        ends[i] = size;
        files[i] = (jfs_span){data, size};
    }
    FUZZ_CHECK(jfs_state_lies_within(state, ends, 0) == JFS_MALFORMED || jfs_state_lies_within(state, ends, 1) == JFS_OK);
    if (jfs_state_lies_within(state, ends, FILES_MAX) != JFS_OK) return;
    if (jfs_state_refs(state, 0, JFS_ORDER_ARRIVAL, JFS_INCLUDE_LIVE, refs, ASK_MAX, &count) != JFS_OK) return;
    FUZZ_CHECK(jfs_state_fill_lines(state, refs, count, &options, files, FILES_MAX, lines) == JFS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jfs_state *state = NULL, *again = NULL;
    uint8_t *saved;
    uint64_t saved_bytes;
    const jfs_status status = jfs_state_load(data, size, &state);
    FUZZ_CHECK(status == JFS_OK || status == JFS_MALFORMED || status == JFS_NO_MEMORY);
    if (status != JFS_OK) return 0;
    ask_everything(state);
    read_lines(state, data, size);
    saved_bytes = jfs_state_save_bytes(state);
    saved = malloc(saved_bytes);
    FUZZ_CHECK(saved != NULL && jfs_state_save(state, saved, saved_bytes) == JFS_OK);
    FUZZ_CHECK(jfs_state_load(saved, saved_bytes, &again) == JFS_OK);
    ask_everything(again);
    jfs_state_free(again);
    free(saved);
    jfs_state_free(state);
    return 0;
}
