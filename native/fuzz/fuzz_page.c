/* Fuzz target: finding the records of a page file, their lines, and the view of them as raw records.
 *
 * Input: a page file.
 */
#include "fuzz.h"
#include "jfs_page_listing.h"
#include "jfs_page_queues.h"
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

/* The columns of a listing are those of the lines. */
static void list_records(const jfs_page *page) {
    uint32_t numbers[LINES_MAX], number = page->count;
    int64_t ids[LINES_MAX], mtimes_ms[LINES_MAX], times_ms[LINES_MAX];
    uint64_t sizes[LINES_MAX];
    uint8_t suffixes[LINES_MAX];
    const jfs_listing listing = {ids, sizes, mtimes_ms, suffixes};
    const uint32_t count = page->count < LINES_MAX ? page->count : LINES_MAX;
    for (uint32_t i = 0; i < count; i++) numbers[i] = i;
    FUZZ_CHECK(jfs_page_listing(page, numbers, count, &listing) == JFS_OK);
    FUZZ_CHECK(jfs_page_schedules(page, numbers, count, 1000, times_ms) == JFS_OK);
    for (uint32_t i = 0; i < count; i++) {
        FUZZ_CHECK(ids[i] == page->measures[i].message_id && suffixes[i] <= JFS_SUFFIX_SER);
        FUZZ_CHECK(times_ms[i] == 0 || times_ms[i] > 1000);
    }
    FUZZ_CHECK(jfs_page_listing(page, &number, 1, &listing) == JFS_RANGE);
    FUZZ_CHECK(jfs_page_schedules(page, &number, 1, 0, times_ms) == JFS_RANGE);
}

/* A queue's records are those that name it. */
static void check_queues(const jfs_page *page) {
    uint32_t *numbers = calloc((size_t)page->count + 1, sizeof *numbers);
    FUZZ_CHECK(numbers != NULL);
    for (uint32_t i = 0; i < page->queue_count && i < LINES_MAX; i++) {
        const uint32_t count = jfs_page_of_queue(page, page->queue_ids[i], numbers);
        FUZZ_CHECK(count > 0 && count <= page->count);
        for (uint32_t at = 1; at < count; at++) FUZZ_CHECK(numbers[at - 1] < numbers[at]);
    }
    free(numbers);
}

/* What a queue has is as many records, and as long lines, as when they are chosen one by one. */
static void check_sums(const jfs_page *page, const uint8_t *data) {
    uint32_t found, again;
    jfs_page_queue *queues = calloc((size_t)page->queue_count + 1, sizeof *queues);
    uint32_t *numbers = calloc((size_t)page->count + 1, sizeof *numbers);
    jfs_line *lines = calloc((size_t)page->count + 1, sizeof *lines);
    uint64_t *starts = calloc((size_t)page->count + 1, sizeof *starts);
    FUZZ_CHECK(queues != NULL && numbers != NULL && lines != NULL && starts != NULL);
    FUZZ_CHECK(jfs_page_queues(page, queues, page->queue_count, &found) == JFS_OK);
    FUZZ_CHECK((found == 0) == (page->queue_count == 0));
    if (found > 0) FUZZ_CHECK(jfs_page_queues(page, queues, found - 1, &again) == JFS_FULL && again == found);
    for (uint32_t i = 0; i < found && i < LINES_MAX; i++) {
        const uint32_t count = jfs_page_of_queue(page, queues[i].queue_id, numbers);
        FUZZ_CHECK(count == queues[i].records && numbers[count - 1] == queues[i].newest);
        FUZZ_CHECK(jfs_page_lines(page, data, numbers, count, 0, INT64_MAX, lines, starts) == JFS_OK);
        FUZZ_CHECK(starts[count] == queues[i].line_bytes);
    }
    free(queues);
    free(numbers);
    free(lines);
    free(starts);
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
    list_records(&page);
    check_queues(&page);
    check_sums(&page, data);
    check_view(&page, data, size);
    jfs_page_free(&page);
    return 0;
}
