/* Adds up what a page holds for each queue, in one pass over its records. */
#include "jfs_page_queues.h"

#include <stdlib.h>
#include <string.h>

#include "envelope.h"
#include "index.h"

enum { QUEUES_FIRST = 16 };

typedef struct {
    jfs_page_queue *items; /* begin with the id: the index looks there */
    item_index by_id;
    uint32_t count;
    uint32_t capacity;
} queue_table;

static jfs_status table_grow(queue_table *table) {
    const uint32_t capacity = table->capacity == 0 ? QUEUES_FIRST : 2 * table->capacity;
    jfs_page_queue *const items = realloc(table->items, capacity * sizeof *items);
    if (items == NULL) return JFS_NO_MEMORY;
    table->items = items;
    table->capacity = capacity;
    return JFS_OK;
}

/* The queue's place in the table. `guess`: the records of a page mostly name the same queues in the same order. */
static jfs_status table_place(queue_table *table, int64_t queue_id, uint32_t guess, uint32_t *place) {
    *place = guess;
    if (guess < table->count && table->items[guess].queue_id == queue_id) return JFS_OK;
    *place = index_find(&table->by_id, table->items, sizeof *table->items, queue_id);
    if (*place != INDEX_NONE) return JFS_OK;
    if (table->count == table->capacity) {
        const jfs_status status = table_grow(table);
        if (status != JFS_OK) return status;
    }
    *place = table->count;
    table->items[*place] = (jfs_page_queue){queue_id, 0, 0, UINT32_MAX};
    table->count++;
    return index_add(&table->by_id, table->items, sizeof *table->items, *place);
}

static jfs_status add_record(queue_table *table, const jfs_page *page, uint32_t number, uint64_t line_bytes) {
    const jfs_page_entry *const entry = &page->entries[number];
    uint32_t guess = 0;
    for (uint32_t i = 0; i < entry->queue_count; i++) {
        uint32_t place;
        const jfs_status status = table_place(table, page->queue_ids[entry->queue_index + i], guess, &place);
        if (status != JFS_OK) return status;
        guess = place + 1;
        if (table->items[place].newest == number) continue; /* a record may name a queue twice */
        table->items[place].newest = number;
        table->items[place].records++;
        table->items[place].line_bytes += line_bytes;
    }
    return JFS_OK;
}

static jfs_status add_all(queue_table *table, const jfs_page *page) {
    const jfs_line due = {0};
    const uint64_t frame_bytes = jfs_line_frame_bytes(&due, 0);
    jfs_status status = index_init(&table->by_id);
    for (uint32_t i = 0; i < page->count && status == JFS_OK; i++) {
        status = add_record(table, page, i, frame_bytes + page->measures[i].tail_bytes);
    }
    return status;
}

jfs_status jfs_page_queues(const jfs_page *page, jfs_page_queue *out, uint32_t capacity, uint32_t *count) {
    queue_table table;
    jfs_status status;
    memset(&table, 0, sizeof table);
    status = add_all(&table, page);
    *count = table.count;
    if (status == JFS_OK && table.count > capacity) status = JFS_FULL;
    if (status == JFS_OK && table.count > 0) memcpy(out, table.items, table.count * sizeof *out);
    index_free(&table.by_id);
    free(table.items);
    return status;
}
