/* Fuzz target: replaying the records of several journal files, and everything that is asked of the result.
 *
 * Input: files, each behind its length (u32, big-endian). The length's top bit ends the initial load before that file,
 * so that what follows is applied as the records of a running broker are.
 */
#include "fuzz.h"
#include "jfs_scan.h"
#include "jfs_state.h"

enum { FILES_MAX = 8, ASK_MAX = 64 };

static const uint32_t FINISH = 0x80000000U;

typedef struct {
    jfs_span spans[FILES_MAX];
    uint32_t count;
} files;

static void apply_file(jfs_state *state, files *all, const uint8_t *data, size_t size) {
    jfs_scan scan;
    jfs_scan_options options = {.start_offset = 16, .stop_offset = size, .version = 2};
    const uint32_t slot = all->count;
    if (size < 16) return;
    options.rid = (int32_t)(fuzz_u32(data + 12) & 0x7fffffffU);
    if (fuzz_u32(data) == 1) options.version = 1;
    all->spans[slot].bytes = data;
    all->spans[slot].size_bytes = size;
    all->count++;
    FUZZ_CHECK(jfs_scan_journal(data, size, &options, &scan) == JFS_OK);
    FUZZ_CHECK(jfs_state_apply(state, slot, &all->spans[slot], scan.records, scan.count) == JFS_OK);
    jfs_scan_free(&scan);
}

static void ask_lines(const jfs_state *state, const files *all, const uint32_t *refs, uint32_t count) {
    const jfs_line_options options = {.prefix_bytes = 12, .now_ms = 1, .sealed = 0};
    uint64_t starts[ASK_MAX + 1];
    int64_t ids[ASK_MAX];
    uint64_t sizes[ASK_MAX];
    jfs_line lines[ASK_MAX];
    const jfs_listing listing = {.ids = ids, .sizes = sizes};
    FUZZ_CHECK(jfs_state_listing(state, refs, count, &listing) == JFS_OK);
    FUZZ_CHECK(jfs_state_line_starts(state, refs, count, &options, starts) == JFS_OK);
    for (uint32_t i = 0; i < count; i++) FUZZ_CHECK(starts[i] < starts[i + 1]);
    FUZZ_CHECK(jfs_state_fill_lines(state, refs, count, &options, all->spans, all->count, lines) == JFS_OK);
}

static void ask_queue(const jfs_state *state, const files *all, uint32_t slot, const jfs_queue_info *info) {
    uint32_t refs[ASK_MAX];
    uint32_t count = 0, live = 0;
    const jfs_status status =
        jfs_state_refs(state, slot, JFS_ORDER_DELIVERY, JFS_INCLUDE_ALL, refs, ASK_MAX, &count);
    FUZZ_CHECK(status == (count > ASK_MAX ? JFS_FULL : JFS_OK));
    FUZZ_CHECK(count == info->live_count + info->delivering_count);
    if (count > ASK_MAX) count = ASK_MAX;
    for (uint32_t i = 0; i < count; i++) {
        jfs_ref_info ref;
        uint32_t found;
        FUZZ_CHECK(jfs_state_ref(state, refs[i], &ref) == JFS_OK);
        FUZZ_CHECK(ref.queue == slot && ref.file_slot < all->count);
        FUZZ_CHECK((uint64_t)ref.body_offset + ref.body_bytes <= all->spans[ref.file_slot].size_bytes);
        FUZZ_CHECK(jfs_state_find(state, slot, ref.message_id, &found) == JFS_OK && found == refs[i]);
    }
    FUZZ_CHECK(jfs_state_refs(state, slot, JFS_ORDER_ARRIVAL, JFS_INCLUDE_LIVE, refs, ASK_MAX, &live) !=
               JFS_NO_MEMORY);
    FUZZ_CHECK(live == info->live_count);
    ask_lines(state, all, refs, live < ASK_MAX ? live : ASK_MAX);
}

static void ask_everything(jfs_state *state, const files *all) {
    const jfs_seal_limits limits = {.bytes_max = 1000, .messages_max = 3, .number_from = 1, .number_end = UINT32_MAX};
    jfs_queue_info queues[ASK_MAX];
    jfs_tx_info transactions[ASK_MAX];
    jfs_operation operations[ASK_MAX];
    jfs_anomaly anomalies[ASK_MAX];
    uint32_t count = 0, made = 0;
    (void)jfs_state_queues(state, queues, ASK_MAX, &count);
    for (uint32_t slot = 0; slot < count && slot < ASK_MAX; slot++) {
        jfs_queue_info now;
        uint32_t parts = 0, refs[ASK_MAX];
        ask_queue(state, all, slot, &queues[slot]);
        FUZZ_CHECK(jfs_state_seal(state, slot, 5, &limits, &made) == JFS_OK);
        (void)jfs_state_part_refs(state, slot, 1, refs, ASK_MAX, &parts);
        (void)jfs_state_tail_refs(state, slot, refs, ASK_MAX, &parts);
        (void)jfs_state_scheduled(state, slot, 0, refs, ASK_MAX, &parts);
        now = queues[slot];
        ask_queue(state, all, slot, &now);
    }
    (void)jfs_state_transactions(state, transactions, ASK_MAX, &count);
    for (uint32_t i = 0; i < count && i < ASK_MAX; i++) {
        uint32_t found = 0;
        (void)jfs_state_operations(state, transactions[i].tx_id, operations, ASK_MAX, &found);
        FUZZ_CHECK(found == transactions[i].operations);
    }
    (void)jfs_state_side(state, JFS_ANY_TYPE, operations, ASK_MAX, &count);
    (void)jfs_state_anomalies(state, anomalies, ASK_MAX, &count);
}

static void save_and_load(jfs_state *state) {
    const uint64_t size = jfs_state_save_bytes(state);
    uint8_t *saved = malloc(size), *again;
    jfs_state *loaded = NULL;
    FUZZ_CHECK(saved != NULL && jfs_state_save(state, saved, size) == JFS_OK);
    FUZZ_CHECK(jfs_state_load(saved, size, &loaded) == JFS_OK);
    FUZZ_CHECK(jfs_state_save_bytes(loaded) == size);
    again = malloc(size);
    FUZZ_CHECK(again != NULL && jfs_state_save(loaded, again, size) == JFS_OK);
    FUZZ_CHECK(memcmp(saved, again, size) == 0);
    jfs_state_free(loaded);
    free(again);
    free(saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jfs_state *state = NULL;
    files all = {.count = 0};
    int finished = 0;
    FUZZ_CHECK(jfs_state_new(&state) == JFS_OK);
    while (size >= 4 && all.count < FILES_MAX) {
        const uint32_t head = fuzz_u32(data);
        const size_t length = (head & ~FINISH) < size - 4 ? head & ~FINISH : size - 4;
        if ((head & FINISH) != 0 && !finished) {
            FUZZ_CHECK(jfs_state_finish(state, 1) == JFS_OK);
            finished = 1;
        }
        apply_file(state, &all, data + 4, length);
        data += 4 + length;
        size -= 4 + length;
    }
    if (!finished) FUZZ_CHECK(jfs_state_finish(state, 0) == JFS_OK);
    FUZZ_CHECK(jfs_state_measure(state, all.spans, all.count) == JFS_OK);
    ask_everything(state, &all);
    save_and_load(state);
    jfs_state_free(state);
    return 0;
}
