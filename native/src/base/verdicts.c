/* Verdicts by message id: stretches of neighbouring ids in an array, found by an index. */
#include "jfs_verdicts.h"

#include <stdlib.h>
#include <string.h>

#include "index.h"

enum { STRETCH_BITS = 7, STRETCH = 1 << STRETCH_BITS, WORDS = STRETCH / 64 };

typedef struct {
    int64_t key; /* first: the index's key; the ids above their lowest bits */
    uint64_t known[WORDS];
    uint64_t yes[WORDS];
} stretch_item;

struct jfs_verdicts {
    item_index index;
    stretch_item *items;
    uint64_t known;
    uint32_t count;
    uint32_t capacity;
};

jfs_status jfs_verdicts_new(jfs_verdicts **out) {
    jfs_verdicts *const verdicts = calloc(1, sizeof *verdicts);
    if (verdicts == NULL) return JFS_NO_MEMORY;
    const jfs_status status = index_init(&verdicts->index);
    if (status != JFS_OK) {
        free(verdicts);
        return status;
    }
    *out = verdicts;
    return JFS_OK;
}

void jfs_verdicts_free(jfs_verdicts *verdicts) {
    if (verdicts == NULL) return;
    index_free(&verdicts->index);
    free(verdicts->items);
    free(verdicts);
}

/* Rounds down, for negative ids as well. */
static int64_t key_of(int64_t id) { return (id - (id & (STRETCH - 1))) / STRETCH; }

static uint32_t find(const jfs_verdicts *verdicts, int64_t key) {
    return index_find(&verdicts->index, verdicts->items, sizeof *verdicts->items, key);
}

static jfs_status add(jfs_verdicts *verdicts, int64_t key, uint32_t *item) {
    if (verdicts->count == verdicts->capacity) {
        /* A quarter more: most of what is kept is this array. */
        const uint64_t capacity = 16 + (uint64_t)verdicts->capacity + verdicts->capacity / 4;
        if (capacity >= INDEX_NONE) return JFS_NO_MEMORY;
        stretch_item *const items = realloc(verdicts->items, (size_t)capacity * sizeof *items);
        if (items == NULL) return JFS_NO_MEMORY;
        verdicts->items = items;
        verdicts->capacity = (uint32_t)capacity;
    }
    *item = verdicts->count;
    memset(&verdicts->items[*item], 0, sizeof *verdicts->items);
    verdicts->items[*item].key = key;
    const jfs_status status = index_add(&verdicts->index, verdicts->items, sizeof *verdicts->items, *item);
    if (status == JFS_OK) verdicts->count++;
    return status;
}

jfs_status jfs_verdicts_note(jfs_verdicts *verdicts, const int64_t *ids, const uint8_t *said, uint32_t count) {
    uint32_t item = INDEX_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (said[i] > JFS_VERDICT_YES) continue;
        const int64_t key = key_of(ids[i]);
        if (item == INDEX_NONE || verdicts->items[item].key != key) item = find(verdicts, key);
        if (item == INDEX_NONE) {
            const jfs_status status = add(verdicts, key, &item);
            if (status != JFS_OK) return status;
        }
        const uint32_t place = (uint32_t)(ids[i] & (STRETCH - 1));
        const uint64_t bit = (uint64_t)1 << (place % 64);
        stretch_item *const stretch = &verdicts->items[item];
        verdicts->known += (stretch->known[place / 64] & bit) == 0;
        stretch->known[place / 64] |= bit;
        if (said[i] == JFS_VERDICT_YES)
            stretch->yes[place / 64] |= bit;
        else
            stretch->yes[place / 64] &= ~bit;
    }
    return JFS_OK;
}

uint32_t jfs_verdicts_of(const jfs_verdicts *verdicts, const int64_t *ids, uint32_t count, uint8_t *said) {
    uint32_t item = INDEX_NONE, unknown = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t key = key_of(ids[i]);
        if (item == INDEX_NONE || verdicts->items[item].key != key) item = find(verdicts, key);
        const uint32_t place = (uint32_t)(ids[i] & (STRETCH - 1));
        const uint64_t bit = (uint64_t)1 << (place % 64);
        const stretch_item *const stretch = item == INDEX_NONE ? NULL : &verdicts->items[item];
        if (stretch == NULL || !(stretch->known[place / 64] & bit)) {
            said[i] = JFS_VERDICT_ASK;
            unknown++;
        } else {
            said[i] = stretch->yes[place / 64] & bit ? JFS_VERDICT_YES : JFS_VERDICT_NO;
        }
    }
    return unknown;
}

uint32_t jfs_verdicts_choose(const uint8_t *said, const uint32_t *values, uint32_t count, uint8_t which,
                             uint32_t *out) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        if (said[i] == which) out[found++] = values[i];
    return found;
}

uint64_t jfs_verdicts_bytes(const jfs_verdicts *verdicts) {
    return sizeof *verdicts + (uint64_t)verdicts->capacity * sizeof *verdicts->items + index_bytes(&verdicts->index);
}

uint64_t jfs_verdicts_count(const jfs_verdicts *verdicts) { return verdicts->known; }
