/* Messages whose time is over, among many that come and go. */
#include "live.h"

enum { Q = 21, MESSAGES = 600, COMING_AND_GOING = 5000 };

static int64_t time_of(int64_t id) { return 1000 + id * 7919 % 997; }

/* Asks for all that expired, and checks each against what is known of it; every third message never expires. */
static uint32_t check_expired(const live *l, int64_t now_ms, const uint8_t *gone) {
    int64_t found[MESSAGES];
    uint8_t seen[MESSAGES + 1] = {0};
    uint32_t count, wanted = 0;
    CHECK_EQ(jfs_state_expired(l->state, now_ms, found, MESSAGES, &count), JFS_OK);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(found[i] >= 1 && found[i] <= MESSAGES && !seen[found[i]]);
        seen[found[i]] = 1;
    }
    for (int64_t id = 1; id <= MESSAGES; id++) {
        const int expected = id % 3 != 0 && !gone[id] && time_of(id) <= now_ms;
        CHECK_EQ(seen[id], expected);
        wanted += (uint32_t)expected;
    }
    return wanted;
}

static void expired_messages_are_found_as_others_go(void) {
    journal j;
    live l;
    uint8_t gone[MESSAGES + 1] = {0};
    uint32_t some;
    int64_t first;
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= MESSAGES; id++) {
        if (id % 3 == 0) {
            sent(&j, id, Q);
        } else {
            expiring(&j, id, Q, time_of(id));
        }
    }
    l = live_of(&j);
    CHECK_EQ(check_expired(&l, 999, gone), 0);
    some = check_expired(&l, 1500, gone);
    CHECK(some > 100 && some < 400);
    CHECK_EQ(jfs_state_expired(l.state, 1500, &first, 1, &some), JFS_FULL);
    for (int64_t id = 1; id <= MESSAGES; id += 2) {
        put_delete(&j, id);
        gone[id] = 1;
    }
    live_apply(&l, 0, &j);
    for (int64_t now_ms = 1000; now_ms <= 2000; now_ms += 50) check_expired(&l, now_ms, gone);
    for (int64_t id = 1; id <= MESSAGES; id++) {
        if (!gone[id]) put_delete(&j, id);
        gone[id] = 1;
    }
    live_apply(&l, 0, &j);
    CHECK_EQ(check_expired(&l, INT64_MAX, gone), 0);
    live_free(&l);
    journal_close(&j);
}

/* What left is not kept for long, however late it would have expired. */
static void memory_does_not_grow_with_what_is_gone(void) {
    journal j;
    live l = live_new();
    uint64_t before = 0;
    journal_open(&j, 2, 1);
    live_apply(&l, 0, &j);
    live_finish(&l);
    for (int64_t id = 1; id <= COMING_AND_GOING; id++) {
        if (id == COMING_AND_GOING / 2) before = jfs_state_memory(l.state);
        journal_close(&j);
        journal_open(&j, 2, 1);
        l.applied[0] = 0;
        expiring(&j, id, Q, INT64_MAX - id);
        live_apply(&l, 0, &j);
        CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
        put_delete(&j, id);
        live_apply(&l, 0, &j);
    }
    CHECK(jfs_state_memory(l.state) <= before);
    live_free(&l);
    journal_close(&j);
}

int main(void) {
    RUN(expired_messages_are_found_as_others_go);
    RUN(memory_does_not_grow_with_what_is_gone);
    return 0;
}
