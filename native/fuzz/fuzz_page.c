/* Fuzz target: finding the records of a page file, their lines, and the view of them as raw records.
 *
 * Input: a page file.
 */
#include "fuzz.h"
#include "jfs_page.h"
#include "jfs_recordview.h"

enum { LINES_MAX = 32 };

static void check_entries(const jfs_page *page, uint64_t size) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < page->count; i++) {
        const jfs_page_entry *entry = &page->entries[i];
        FUZZ_CHECK(entry->offset == at);
        at += entry->record_bytes;
        FUZZ_CHECK(at <= size);
        FUZZ_CHECK(entry->payload_offset + entry->payload_bytes <= at);
        FUZZ_CHECK((uint64_t)entry->queue_index + entry->queue_count <= page->queue_count);
    }
    FUZZ_CHECK(page->end_offset == at);
    FUZZ_CHECK((page->damaged_at == JFS_PAGE_WHOLE) == (page->reason == NULL));
    if (page->damaged_at != JFS_PAGE_WHOLE) FUZZ_CHECK(page->damaged_at >= at && page->damaged_at < size);
}

static void read_lines(const jfs_page *page, const uint8_t *data) {
    uint32_t numbers[LINES_MAX];
    jfs_line lines[LINES_MAX];
    uint64_t starts[LINES_MAX + 1];
    const uint32_t count = page->count < LINES_MAX ? page->count : LINES_MAX;
    for (uint32_t i = 0; i < count; i++) numbers[i] = i;
    FUZZ_CHECK(jfs_page_lines(page, data, numbers, count, 12, 1, lines, starts) == JFS_OK);
    for (uint32_t i = 0; i < count; i++) FUZZ_CHECK(starts[i] < starts[i + 1]);
}

static void check_view(const jfs_page *page, const uint8_t *data, size_t size) {
    static const uint8_t prefix[] = "{\"file\":\"f\"";
    jfs_record_view view = {.bytes = data, .size_bytes = size, .page = page, .prefix = prefix};
    uint64_t *starts = calloc((size_t)page->count + 1, sizeof *starts), written;
    uint8_t *whole;
    FUZZ_CHECK(starts != NULL);
    view.prefix_bytes = sizeof prefix - 1;
    view.count = page->count;
    FUZZ_CHECK(jfs_record_view_starts(&view, starts) == JFS_OK);
    view.starts = starts;
    whole = malloc(starts[page->count] + 1);
    FUZZ_CHECK(whole != NULL);
    FUZZ_CHECK(jfs_record_view_read(&view, 0, whole, starts[page->count] + 1, &written) == JFS_OK);
    FUZZ_CHECK(written == starts[page->count]);
    free(whole);
    free(starts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jfs_page page;
    FUZZ_CHECK(jfs_scan_page(data, size, 0, NULL, 0, &page) == JFS_OK);
    check_entries(&page, size);
    read_lines(&page, data);
    check_view(&page, data, size);
    jfs_page_free(&page);
    return 0;
}
