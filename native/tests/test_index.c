/* The hash index and the id set against plain arrays. */
#include "check.h"
#include "index.h"

enum { ITEMS = 3000, STEPS = 200000 };

typedef struct {
    int64_t key;
    int64_t other;
} item;

static uint32_t random_below(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(*state >> 33) % below;
}

static void follows_a_plain_array(void) {
    item *const items = calloc(ITEMS, sizeof *items);
    uint8_t *const there = calloc(ITEMS, 1);
    item_index index;
    uint32_t count = 0;
    uint64_t random = 4411;
    CHECK_EQ(index_init(&index), JFS_OK);
    for (uint32_t i = 0; i < ITEMS; i++) items[i].key = (int64_t)i * 1048576 - 77; /* as ids that differ in high bits */
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t i = random_below(&random, ITEMS);
        const uint32_t wanted = there[i] ? i : INDEX_NONE;
        CHECK_EQ(index_find(&index, items, sizeof *items, items[i].key), wanted);
        if (there[i]) {
            index_remove(&index, items, sizeof *items, items[i].key);
            count--;
        } else {
            CHECK_EQ(index_add(&index, items, sizeof *items, i), JFS_OK);
            count++;
        }
        there[i] = !there[i];
        CHECK_EQ(index.count, count);
    }
    index_remove(&index, items, sizeof *items, 1); /* unknown: nothing happens */
    CHECK_EQ(index.count, count);
    CHECK_EQ(index_resize(&index, items, sizeof *items, count), JFS_OK);
    for (uint32_t i = 0; i < ITEMS; i++) {
        CHECK_EQ(index_find(&index, items, sizeof *items, items[i].key), there[i] ? i : INDEX_NONE);
    }
    index_free(&index);
    free(items);
    free(there);
}

static void an_empty_index_finds_nothing(void) {
    item_index index;
    CHECK_EQ(index_init(&index), JFS_OK);
    CHECK_EQ(index_find(&index, NULL, sizeof(item), 7), INDEX_NONE);
    CHECK_EQ(index_bytes(&index), 0);
    index_remove(&index, NULL, sizeof(item), 7);
    index_free(&index);
}

static void a_set_has_what_was_added(void) {
    id_set set = {0};
    CHECK(!id_set_has(&set, 0));
    CHECK(!id_set_has(&set, 5));
    for (int64_t id = -5000; id < 5000; id += 2) CHECK_EQ(id_set_add(&set, id), JFS_OK);
    for (int64_t id = -5000; id < 5000; id += 2) CHECK_EQ(id_set_add(&set, id), JFS_OK);
    for (int64_t id = -5001; id < 5001; id++) CHECK_EQ(id_set_has(&set, id), id % 2 == 0 && id >= -5000 && id < 5000);
    CHECK_EQ(set.count, 4999); /* 0 is kept aside */
    id_set_free(&set);
    CHECK(!id_set_has(&set, 0));
}

int main(void) {
    RUN(follows_a_plain_array);
    RUN(an_empty_index_finds_nothing);
    RUN(a_set_has_what_was_added);
    return 0;
}
