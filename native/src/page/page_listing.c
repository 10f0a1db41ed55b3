/* Columns of a listing and schedules of a page's records, many at once. */
#include "jfs_page_listing.h"

jfs_status jfs_page_listing(const jfs_page *page, const uint32_t *numbers, uint32_t count, const jfs_listing *out) {
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] >= page->count) return JFS_RANGE;
        const jfs_measure *const measure = &page->measures[numbers[i]];
        out->ids[i] = measure->message_id;
        out->sizes[i] = measure->body_bytes;
        out->mtimes_ms[i] = measure->timestamp_ms;
        out->suffixes[i] = measure->suffix;
    }
    return JFS_OK;
}

jfs_status jfs_page_schedules(const jfs_page *page, const uint32_t *numbers, uint32_t count, int64_t now_ms,
                              int64_t *times_ms) {
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] >= page->count) return JFS_RANGE;
        const int64_t scheduled_ms = page->measures[numbers[i]].scheduled_ms;
        times_ms[i] = scheduled_ms > now_ms ? scheduled_ms : 0;
    }
    return JFS_OK;
}
