/* The hash index and the id set. */
#define _GNU_SOURCE
#include "index.h"

#include "jfs_assert.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { CELLS_FIRST = 64, FILL_AHEAD = 16 };

/* Cells put over with each item that is added: all of them long before the index is full again. */
enum { PUT_OVER = 8 };

/* In `before`: what was here is not in the index any more. No item has this number, as with INDEX_NONE. */
#define GONE (INDEX_NONE - 1)

static inline int64_t key_of(const void *items, size_t stride, uint32_t item) {
    int64_t key;
    memcpy(&key, (const char *)items + stride * item, sizeof key);
    return key;
}

jfs_status hash_seeds(uint64_t seeds[2]) {
    return getrandom(seeds, 2 * sizeof *seeds, 0) == (ssize_t)(2 * sizeof *seeds) ? JFS_OK : JFS_NO_MEMORY;
}

jfs_status index_init(item_index *index) {
    memset(index, 0, sizeof *index);
    index->key_max = INT64_MIN;
    return hash_seeds(index->seeds);
}

void index_clear(item_index *index) {
    free(index->cells);
    free(index->before);
    index->cells = index->before = NULL;
    index->mask = 0;
    index->count = 0;
    index->key_max = INT64_MIN;
}

void index_free(item_index *index) { index_clear(index); }

uint64_t index_bytes(const item_index *index) {
    const uint64_t cells = index->cells == NULL ? 0 : (uint64_t)index->mask + 1;
    const uint64_t before = index->before == NULL ? 0 : (uint64_t)index->mask_before + 1;
    return (cells + before) * sizeof *index->cells;
}

/* The cell that holds the key, or an empty one. */
static uint32_t *cell_of(uint32_t *cells, uint32_t mask, uint64_t hash, const void *items, size_t stride, int64_t key) {
    uint32_t at = (uint32_t)hash & mask;
    while (cells[at] != INDEX_NONE && (cells[at] == GONE || key_of(items, stride, cells[at]) != key)) {
        at = (at + 1) & mask;
    }
    return &cells[at];
}

uint32_t index_find(const item_index *index, const void *items, size_t stride, int64_t key) {
    uint64_t hash;
    uint32_t item;
    if (index->cells == NULL || key > index->key_max) return INDEX_NONE;
    hash = hash_of(index->seeds, key);
    item = *cell_of(index->cells, index->mask, hash, items, stride, key);
    if (item != INDEX_NONE || index->before == NULL) return item;
    return *cell_of(index->before, index->mask_before, hash, items, stride, key);
}

static void put(item_index *index, const void *items, size_t stride, uint32_t item) {
    const int64_t key = key_of(items, stride, item);
    uint32_t at = (uint32_t)hash_of(index->seeds, key) & index->mask;
    while (index->cells[at] != INDEX_NONE) at = (at + 1) & index->mask;
    index->cells[at] = item;
    if (key > index->key_max) index->key_max = key;
}

/* Puts over that many cells of before. */
static void put_over(item_index *index, const void *items, size_t stride, uint64_t cells) {
    JFS_ASSERT(index->before == NULL || index->put_over <= (uint64_t)index->mask_before + 1);
    const uint64_t left = index->before == NULL ? 0 : (uint64_t)index->mask_before + 1 - index->put_over;
    for (uint64_t i = 0; i < cells && i < left; i++) {
        const uint32_t item = index->before[index->put_over++];
        if (item != INDEX_NONE && item != GONE) put(index, items, stride, item);
    }
    if (cells < left) return;
    free(index->before);
    index->before = NULL;
}

/* Three quarters full at most: probes stay short and the cost below 11 bytes an item. */
static jfs_status cells_for(item_index *index, const void *items, size_t stride, uint32_t count) {
    const uint64_t had = index->cells == NULL ? 0 : (uint64_t)index->mask + 1;
    uint64_t cells = CELLS_FIRST;
    uint32_t *fresh;
    while (cells / 4 * 3 < count) cells *= 2;
    if (cells == had) return JFS_OK;
    if (cells > (uint64_t)UINT32_MAX + 1) return JFS_NO_MEMORY;
    fresh = malloc((size_t)cells * sizeof *fresh);
    if (fresh == NULL) return JFS_NO_MEMORY;
    memset(fresh, 0xff, (size_t)cells * sizeof *fresh);
    put_over(index, items, stride, UINT64_MAX);
    index->before = index->cells;
    index->mask_before = index->mask;
    index->put_over = 0;
    index->cells = fresh;
    index->mask = (uint32_t)(cells - 1);
    return JFS_OK;
}

jfs_status index_resize(item_index *index, const void *items, size_t stride, uint32_t count) {
    const jfs_status status = cells_for(index, items, stride, count);
    put_over(index, items, stride, UINT64_MAX);
    return status;
}

jfs_status index_add(item_index *index, const void *items, size_t stride, uint32_t item) {
    JFS_ASSERT(item != INDEX_NONE);
    JFS_ASSERT(index_find(index, items, stride, key_of(items, stride, item)) == INDEX_NONE);
    if (index->cells == NULL || (uint64_t)index->count + 1 > ((uint64_t)index->mask + 1) / 4 * 3) {
        const jfs_status status = cells_for(index, items, stride, index->count + 1);
        if (status != JFS_OK) return status;
    }
    put(index, items, stride, item);
    index->count++;
    put_over(index, items, stride, PUT_OVER);
    return JFS_OK;
}

jfs_status index_fill(item_index *index, const void *items, size_t stride, uint32_t count, int distinct) {
    const jfs_status status = index_resize(index, items, stride, count);
    if (status != JFS_OK) return status;
    for (uint32_t item = 0; item < count; item++) {
        if (!distinct && index_find(index, items, stride, key_of(items, stride, item)) != INDEX_NONE) {
            return JFS_MALFORMED;
        }
        /* Where a key belongs is known long before it is put there: the cell is on its way meanwhile. */
        if (item + FILL_AHEAD < count) {
            const uint64_t ahead = hash_of(index->seeds, key_of(items, stride, item + FILL_AHEAD));
            __builtin_prefetch(&index->cells[(uint32_t)ahead & index->mask], 1);
        }
        put(index, items, stride, item);
        index->count++;
    }
    return JFS_OK;
}

/* Closes the hole by moving back those that were displaced over it, so that no tombstones pile up. */
static void close_hole(item_index *index, const void *items, size_t stride, uint32_t hole) {
    JFS_ASSERT(hole <= index->mask);
    uint32_t at;
    for (at = (hole + 1) & index->mask; index->cells[at] != INDEX_NONE; at = (at + 1) & index->mask) {
        const uint32_t home = (uint32_t)hash_of(index->seeds, key_of(items, stride, index->cells[at])) & index->mask;
        if (((at - home) & index->mask) >= ((at - hole) & index->mask)) {
            index->cells[hole] = index->cells[at];
            hole = at;
        }
    }
    index->cells[hole] = INDEX_NONE;
}

void index_remove(item_index *index, const void *items, size_t stride, int64_t key) {
    const uint64_t hash = hash_of(index->seeds, key);
    uint32_t *cell, *cell_before = NULL;
    int found;
    if (index->cells == NULL) return;
    cell = cell_of(index->cells, index->mask, hash, items, stride, key);
    if (index->before != NULL) cell_before = cell_of(index->before, index->mask_before, hash, items, stride, key);
    found = *cell != INDEX_NONE || (cell_before != NULL && *cell_before != INDEX_NONE);
    if (cell_before != NULL && *cell_before != INDEX_NONE) *cell_before = GONE;
    if (*cell != INDEX_NONE) close_hole(index, items, stride, (uint32_t)(cell - index->cells));
    if (found) index->count--;
}

static int cell_holds(const item_index *index, const void *items, size_t stride, uint32_t items_end, uint32_t item) {
    return item < items_end && index_find(index, items, stride, key_of(items, stride, item)) == item;
}

int index_check(const item_index *index, const void *items, size_t stride, uint32_t items_end) {
    const uint64_t cells = index->cells == NULL ? 0 : (uint64_t)index->mask + 1;
    const uint64_t before = index->before == NULL ? 0 : (uint64_t)index->mask_before + 1;
    uint64_t found = 0;
    for (uint64_t i = 0; i < cells; i++) {
        if (index->cells[i] == INDEX_NONE) continue;
        if (!cell_holds(index, items, stride, items_end, index->cells[i])) return 0;
        found++;
    }
    for (uint64_t i = index->put_over; i < before; i++) {
        if (index->before[i] == INDEX_NONE || index->before[i] == GONE) continue;
        if (!cell_holds(index, items, stride, items_end, index->before[i])) return 0;
        found++;
    }
    return found == index->count;
}

static void set_put(id_set *set, int64_t id) {
    uint64_t at = hash_of(set->seeds, id) & set->mask;
    while (set->cells[at] != 0) at = (at + 1) & set->mask;
    set->cells[at] = id;
}

static jfs_status set_grow(id_set *set) {
    const uint64_t old_cells = set->cells == NULL ? 0 : set->mask + 1;
    const uint64_t cells = old_cells == 0 ? CELLS_FIRST : old_cells * 2;
    int64_t *const old = set->cells;
    int64_t *fresh;
    if (old == NULL && hash_seeds(set->seeds) != JFS_OK) return JFS_NO_MEMORY;
    fresh = calloc((size_t)cells, sizeof *fresh);
    if (fresh == NULL) return JFS_NO_MEMORY;
    set->cells = fresh;
    set->mask = cells - 1;
    for (uint64_t i = 0; i < old_cells; i++) {
        if (old[i] != 0) set_put(set, old[i]);
    }
    free(old);
    return JFS_OK;
}

int id_set_has(const id_set *set, int64_t id) {
    uint64_t at;
    if (id == 0) return set->has_zero;
    if (set->cells == NULL) return 0;
    for (at = hash_of(set->seeds, id) & set->mask; set->cells[at] != 0; at = (at + 1) & set->mask) {
        if (set->cells[at] == id) return 1;
    }
    return 0;
}

jfs_status id_set_add(id_set *set, int64_t id) {
    if (id == 0) {
        set->has_zero = 1;
        return JFS_OK;
    }
    if (set->cells == NULL || set->count + 1 > (set->mask + 1) / 4 * 3) {
        const jfs_status status = set_grow(set);
        if (status != JFS_OK) return status;
    }
    if (!id_set_has(set, id)) {
        set_put(set, id);
        set->count++;
    }
    return JFS_OK;
}

void id_set_free(id_set *set) {
    free(set->cells);
    memset(set, 0, sizeof *set);
}
