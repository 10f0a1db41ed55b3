/* The growing arrays of the state. Nothing here knows what they hold. */
#include "state_internal.h"

enum { VECTOR_FIRST = 8, VECTOR_LONG = 65536 };

jfs_status vector_grow(void *items, uint32_t *capacity, size_t item_bytes, uint32_t wanted) {
    JFS_ASSERT(item_bytes > 0);
    JFS_ASSERT(wanted > *capacity);
    /* The kernel moves long arrays without copying them, and what they have too much of is most of what is wasted. */
    const uint32_t more = *capacity < VECTOR_LONG ? *capacity / 2 : *capacity / 16;
    uint64_t room = (uint64_t)*capacity + more + VECTOR_FIRST;
    void *held, *grown;
    if (room < wanted) room = wanted;
    if (room >= JFS_NONE) return JFS_NO_MEMORY; /* JFS_NONE is no index */
    memcpy(&held, items, sizeof held);
    grown = realloc(held, (size_t)room * item_bytes);
    if (grown == NULL) return JFS_NO_MEMORY;
    memcpy(items, &grown, sizeof grown);
    *capacity = (uint32_t)room;
    return JFS_OK;
}

void vector_shrink(void *items, uint32_t *capacity, size_t item_bytes, uint32_t count) {
    JFS_ASSERT(count <= *capacity);
    void *held, *less = NULL;
    if (*capacity == count) return;
    memcpy(&held, items, sizeof held);
    if (count == 0) {
        free(held);
    } else {
        less = realloc(held, (size_t)count * item_bytes);
        if (less == NULL) return; /* keeping the larger one is no failure */
    }
    memcpy(items, &less, sizeof less);
    *capacity = count;
}
