/* Short ways to make journals of messages and to ask a live state about them. */
#ifndef JFS_LIVE_H
#define JFS_LIVE_H

#include "jfs_state.h"
#include "journal_maker.h"

enum { ADD_REF = 32, ACK = 33, DELIVERIES = 34, PAGE_TX = 35, SCHEDULE = 36, CURSOR_ACK = 39 };

/* A core message as docs/format/messages.md lays it out: bytes, durable, timestamp = its id, of some priority. */
static inline uint32_t expiring_body(uint8_t *out, int64_t id, uint8_t priority, uint32_t text_bytes,
                                     int64_t expiration_ms) {
    journal j = {.bytes = out, .version = 2};
    put_u8(&j, 1); /* persister: core */
    put_number(&j, id, 8);
    put_u8(&j, 0); /* no address */
    put_number(&j, 4 + text_bytes + 8 + 1 + 1 + 1 + 1 + 8 + 8 + 1 + 1, 4);
    put_number(&j, text_bytes + 13, 4);
    for (uint32_t i = 0; i < text_bytes; i++) put_u8(&j, 0x80);
    put_number(&j, id, 8);
    put_u8(&j, 0); /* no address */
    put_u8(&j, 0); /* no user id */
    put_u8(&j, 4); /* bytes */
    put_u8(&j, 1); /* durable */
    put_number(&j, expiration_ms, 8);
    put_number(&j, id, 8); /* timestamp */
    put_u8(&j, priority);
    put_u8(&j, 0); /* no properties */
    return j.size;
}

static inline uint32_t message_body(uint8_t *out, int64_t id, uint8_t priority, uint32_t text_bytes) {
    return expiring_body(out, id, priority, text_bytes, 0);
}

static inline void message(journal *j, int64_t id, uint8_t priority) {
    uint8_t body[128];
    put_add(j, JFS_ADD, id, 45, body, message_body(body, id, priority, 10));
}

/* Payload of up to three numbers, as most types have it. */
static inline uint32_t numbers(uint8_t *out, int64_t a, int64_t b, int b_width, int64_t c, int c_width) {
    journal j = {.bytes = out, .version = 2};
    put_number(&j, a, 8);
    if (b_width > 0) put_number(&j, b, b_width);
    if (c_width > 0) put_number(&j, c, c_width);
    return j.size;
}

static inline void update(journal *j, int user_type, int64_t id, int64_t queue, int64_t value) {
    uint8_t body[24];
    const int width = user_type == DELIVERIES ? 4 : user_type == SCHEDULE ? 8 : 0;
    put_add(j, JFS_UPDATE, id, user_type, body, numbers(body, queue, value, width, 0, 0));
}

static inline void update_tx(journal *j, int64_t tx, int user_type, int64_t id, int64_t queue) {
    uint8_t body[24];
    put_add_tx(j, JFS_UPDATE_TX, tx, id, user_type, body, numbers(body, queue, 0, 0, 0, 0));
}

static inline void message_tx(journal *j, int64_t tx, int64_t id) {
    uint8_t body[128];
    put_add_tx(j, JFS_ADD_TX, tx, id, 45, body, message_body(body, id, 4, 10));
}

/* A message in one queue. */
static inline void sent(journal *j, int64_t id, int64_t queue) {
    message(j, id, 4);
    update(j, ADD_REF, id, queue, 0);
}

static inline void expiring(journal *j, int64_t id, int64_t queue, int64_t expiration_ms) {
    uint8_t body[128];
    put_add(j, JFS_ADD, id, 45, body, expiring_body(body, id, 4, 10, expiration_ms));
    update(j, ADD_REF, id, queue, 0);
}

/* What is live, and the files it lies in. */
typedef struct {
    jfs_state *state;
    jfs_span files[8];
    uint32_t file_count;
    uint32_t applied[8]; /* up to where each was applied */
} live;

static inline live live_new(void) {
    live l;
    memset(&l, 0, sizeof l);
    CHECK_EQ(jfs_state_new(&l.state), JFS_OK);
    return l;
}

/* Applies what was not applied yet; the journal may grow and be applied again. */
static inline void live_free(live *l) {
    CHECK_WHOLE(jfs_state_check(l->state));
    jfs_state_free(l->state);
}

static inline void live_apply(live *l, uint32_t slot, const journal *j) {
    const jfs_scan_options options = {.start_offset = l->applied[slot] == 0 ? 16 : l->applied[slot],
                                      .stop_offset = j->size,
                                      .rid = (int32_t)j->rid,
                                      .version = j->version};
    jfs_scan scan;
    l->files[slot] = (jfs_span){j->bytes, JOURNAL_BYTES};
    if (l->file_count <= slot) l->file_count = slot + 1;
    CHECK_EQ(jfs_scan_journal(j->bytes, JOURNAL_BYTES, &options, &scan), JFS_OK);
    CHECK_EQ(jfs_state_apply(l->state, slot, &l->files[slot], scan.records, scan.count), JFS_OK);
    CHECK_WHOLE(jfs_state_check(l->state));
    l->applied[slot] = scan.end_offset;
    jfs_scan_free(&scan);
}

static inline void live_finish(live *l) {
    CHECK_EQ(jfs_state_finish(l->state, 0), JFS_OK);
    CHECK_WHOLE(jfs_state_check(l->state));
    CHECK_EQ(jfs_state_measure(l->state, l->files, l->file_count), JFS_OK);
}

/* One journal, applied and finished. */
static inline live live_of(const journal *j) {
    live l = live_new();
    live_apply(&l, 0, j);
    live_finish(&l);
    return l;
}

static inline uint32_t slot_of(const live *l, int64_t queue) {
    uint32_t slot;
    CHECK_EQ(jfs_state_register_queue(l->state, queue, &slot), JFS_OK);
    return slot;
}

static inline jfs_queue_info queue_of(const live *l, int64_t queue) {
    jfs_queue_info info;
    CHECK_EQ(jfs_state_queue(l->state, slot_of(l, queue), &info), JFS_OK);
    return info;
}

/* Checks the ids of a list of references; `wanted` ends with 0. */
static inline void check_ids(const live *l, const uint32_t *refs, uint32_t count, const int64_t *wanted) {
    uint32_t n = 0;
    while (wanted[n] != 0) n++;
    CHECK_EQ(count, n);
    for (uint32_t i = 0; i < n; i++) {
        jfs_ref_info info;
        CHECK_EQ(jfs_state_ref(l->state, refs[i], &info), JFS_OK);
        CHECK_EQ(info.message_id, wanted[i]);
    }
}

#define CHECK_QUEUE(l, queue, order, include, ...)                                                                   \
    do {                                                                                                             \
        uint32_t refs_[4096], count_;                                                                                \
        CHECK_EQ(jfs_state_refs((l)->state, slot_of((l), (queue)), (order), (include), refs_, 4096, &count_), JFS_OK); \
        check_ids((l), refs_, count_, (const int64_t[]){__VA_ARGS__});                                               \
    } while (0)

#define CHECK_LIVE(l, queue, ...) CHECK_QUEUE(l, queue, JFS_ORDER_ARRIVAL, JFS_INCLUDE_LIVE, __VA_ARGS__)

static inline uint32_t anomalies_of(const live *l, uint32_t kind) {
    jfs_anomaly found[64];
    uint32_t count, matching = 0;
    CHECK_EQ(jfs_state_anomalies(l->state, found, 64, &count), JFS_OK);
    for (uint32_t i = 0; i < count; i++) matching += found[i].kind == kind;
    return matching;
}

#endif
