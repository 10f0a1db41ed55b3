/* Open-addressed hash index from an i64 key to an item of an array whose items begin with that key.
 *
 * Cells hold item numbers only (4 bytes), so the index costs 5 to 11 bytes an item. Keys come from disk and may be
 * chosen to collide; the hash is keyed with random numbers of the process, so they cannot be.
 */
#ifndef JFS_INDEX_H
#define JFS_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "jfs_status.h"

#define INDEX_NONE UINT32_MAX

jfs_status hash_seeds(uint64_t seeds[2]); /* draws them */

static inline uint64_t hash_of(const uint64_t seeds[2], int64_t key) {
    const unsigned __int128 product = (unsigned __int128)((uint64_t)key ^ seeds[0]) * (seeds[1] | 1);
    const uint64_t folded = (uint64_t)product ^ (uint64_t)(product >> 64);
    return folded ^ (folded >> 32);
}

typedef struct {
    uint32_t *cells;  /* item number, INDEX_NONE: empty */
    uint32_t *before; /* the cells of when it was smaller, while they are put over, a few with each item added */
    uint64_t seeds[2];
    int64_t key_max; /* no key above it was ever added: new ids mostly are, and need no look at the cells */
    uint32_t mask; /* cells - 1, a power of two; 0: no cells */
    uint32_t mask_before;
    uint64_t put_over; /* cells of `before` that were */
    uint32_t count;
} item_index;

jfs_status index_init(item_index *index); /* draws the seeds */
void index_free(item_index *index);

/* Item with the key, or INDEX_NONE. items: the array, stride: bytes of an item. */
uint32_t index_find(const item_index *index, const void *items, size_t stride, int64_t key);

/* Adds an item that is in the array and whose key is not in the index. */
jfs_status index_add(item_index *index, const void *items, size_t stride, uint32_t item);
void index_remove(item_index *index, const void *items, size_t stride, int64_t key);

/* Fills an empty index with items 0..count. JFS_MALFORMED: a key is there twice (not looked for if `distinct`). */
jfs_status index_fill(item_index *index, const void *items, size_t stride, uint32_t count, int distinct);

/* Makes room for `count` items at once, or shrinks to what that needs. */
jfs_status index_resize(item_index *index, const void *items, size_t stride, uint32_t count);
/* True if each cell names an item below `items_end` that is found by its key, and `count` says how many there are. */
int index_check(const item_index *index, const void *items, size_t stride, uint32_t items_end);
void index_clear(item_index *index); /* empty, memory freed, seeds kept */
uint64_t index_bytes(const item_index *index);

/* A set of ids that only grows. */
typedef struct {
    int64_t *cells; /* 0: empty */
    uint64_t seeds[2];
    uint64_t mask;
    uint64_t count;
    uint8_t has_zero;
} id_set;

jfs_status id_set_add(id_set *set, int64_t id);
int id_set_has(const id_set *set, int64_t id);
void id_set_free(id_set *set);

#endif
