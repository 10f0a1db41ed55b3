/* Page files: finding the records, and measuring their messages in the same pass. */
#include <stdlib.h>

#include "envelope.h"
#include "jfs_guard.h"
#include "jfs_page.h"

enum {
    OPENING = '{',
    CLOSING = '}',
    FRAME_BYTES = 6,  /* opening byte, length, closing byte */
    RECORD_FRONT = 9, /* transaction and kind */
};

enum { KIND_SMALL = 0, KIND_CORE_LARGE = 1, KIND_CORE_LARGE_OLD = -1, KIND_OTHER_LARGE = 2 };

static jfs_status grow_entries(jfs_page *page) {
    const uint32_t capacity = page->capacity == 0 ? 256 : 2 * page->capacity;
    if (capacity < page->capacity) return JFS_NO_MEMORY;
    jfs_page_entry *entries = realloc(page->entries, capacity * sizeof *entries);
    if (entries == NULL) return JFS_NO_MEMORY;
    page->entries = entries;
    jfs_measure *measures = realloc(page->measures, capacity * sizeof *measures);
    if (measures == NULL) return JFS_NO_MEMORY;
    page->measures = measures;
    page->capacity = capacity;
    return JFS_OK;
}

static jfs_status grow_queues(jfs_page *page, uint64_t wanted) {
    uint64_t capacity = page->queue_capacity == 0 ? 256 : 2 * (uint64_t)page->queue_capacity;
    if (capacity < wanted) capacity = wanted;
    if (capacity > UINT32_MAX) return JFS_NO_MEMORY;
    int64_t *ids = realloc(page->queue_ids, capacity * sizeof *ids);
    if (ids == NULL) return JFS_NO_MEMORY;
    page->queue_ids = ids;
    page->queue_capacity = (uint32_t)capacity;
    return JFS_OK;
}

static void undecoded(jfs_page_entry *entry) { entry->flags |= JFS_PAGE_UNDECODED; }

/* Finds the message in a record's content; what is left in the reader are the queues. */
static void take_message(jfs_page_entry *entry, jfs_reader *reader, const uint8_t *file) {
    const jfs_view rest = {reader->at, jfs_left(reader)};
    jfs_view message = {NULL, 0};
    if (entry->kind == KIND_SMALL || entry->kind == KIND_OTHER_LARGE) {
        entry->source = JFS_SOURCE_PERSISTER;
        message = jfs_take(reader, jfs_payload_extent(rest));
    } else if (entry->kind == KIND_CORE_LARGE || entry->kind == KIND_CORE_LARGE_OLD) {
        entry->source = JFS_SOURCE_CORE_LARGE;
        message = jfs_take_sized(reader);
    } else {
        reader->bad = 1;
    }
    if (reader->bad) message = rest; /* shown as it is */
    entry->payload_offset = (uint64_t)(message.at - file);
    entry->payload_bytes = (uint32_t)message.bytes;
}

static jfs_status take_queues(jfs_page *page, jfs_page_entry *entry, jfs_reader *reader) {
    const uint32_t count = jfs_take32(reader);
    entry->queue_index = page->queue_count;
    if (reader->bad || count > INT32_MAX || 8 * (uint64_t)count != jfs_left(reader)) {
        undecoded(entry);
        return JFS_OK;
    }
    const uint64_t wanted = (uint64_t)page->queue_count + count;
    if (wanted > page->queue_capacity) {
        jfs_status status = grow_queues(page, wanted);
        if (status != JFS_OK) return status;
    }
    for (uint32_t i = 0; i < count; i++) page->queue_ids[page->queue_count + i] = (int64_t)jfs_take64(reader);
    page->queue_count = (uint32_t)wanted;
    entry->queue_count = count;
    return JFS_OK;
}

static jfs_status add_entry(jfs_page *page, const uint8_t *file, uint64_t offset, jfs_view content) {
    jfs_status status = JFS_OK;
    if (page->count == page->capacity) status = grow_entries(page);
    if (status != JFS_OK) return status;
    jfs_page_entry *entry = &page->entries[page->count];
    jfs_reader reader = jfs_reader_over(content);
    memset(entry, 0, sizeof *entry);
    entry->offset = offset;
    entry->record_bytes = (uint32_t)content.bytes + FRAME_BYTES;
    entry->tx_id = (int64_t)jfs_take64(&reader);
    entry->kind = (int8_t)jfs_take8(&reader);
    take_message(entry, &reader, file);
    status = take_queues(page, entry, &reader);
    if (status != JFS_OK) return status;
    const jfs_line line = {
        .payload = file + entry->payload_offset, .payload_bytes = entry->payload_bytes, .source = entry->source};
    status = jfs_line_measure(&line, &page->measures[page->count]);
    if (status == JFS_OK) page->count++;
    return status;
}

static void damaged(jfs_page *page, uint64_t at, const char *reason) {
    page->damaged_at = at;
    page->reason = reason;
}

typedef struct {
    const uint8_t *bytes;
    uint64_t size_bytes;
    uint64_t start;
    const jfs_hole *holes;
    uint32_t hole_count;
    uint32_t hole; /* the first that ends behind what was searched */
    jfs_page *out;
} scan_job;

/* The next stretch from *at on, before `stop`, that is in no hole: *at is moved to its beginning, its end is returned.
 * *at is `stop` where there is none. */
static uint64_t next_data(const scan_job *job, uint32_t *hole, uint64_t *at, uint64_t stop) {
    for (; *hole < job->hole_count && job->holes[*hole].start <= *at; ++*hole)
        if (job->holes[*hole].end > *at) *at = job->holes[*hole].end;
    if (*at > stop) *at = stop;
    return *hole < job->hole_count && job->holes[*hole].start < stop ? job->holes[*hole].start : stop;
}

static int only_zeros_from(const scan_job *job, uint64_t at) {
    uint32_t hole = 0;
    for (uint64_t end; at < job->size_bytes; at = end) {
        end = next_data(job, &hole, &at, job->size_bytes);
        /* Bytes that equal those one place before them all equal the first. */
        if (at == end) continue;
        if (job->bytes[at] != 0 || memcmp(job->bytes + at, job->bytes + at + 1, end - at - 1) != 0) return 0;
    }
    return 1;
}

static const char no_record[] = "no record begins here";

/* Why no record's frame is at `at`; NULL if one is, and then its content. */
static const char *frame_at(const scan_job *job, uint64_t at, jfs_view *content) {
    const uint8_t *record = job->bytes + at;
    const uint64_t left = job->size_bytes - at;
    if (record[0] != OPENING) return no_record;
    const uint32_t length = jfs_load32(record + 1);
    if (length > INT32_MAX || length > left - FRAME_BYTES) return "the record is longer than the page";
    if (record[FRAME_BYTES - 1 + length] != CLOSING || length < RECORD_FRONT)
        return "the record does not end where it says";
    *content = (jfs_view){record + FRAME_BYTES - 1, length};
    return NULL;
}

/* Whether a record's content is what a record holds, without keeping anything of it. */
static int decodes(const uint8_t *file, jfs_view content) {
    jfs_page_entry entry = {0};
    jfs_reader reader = jfs_reader_over(content);
    jfs_take64(&reader);
    entry.kind = (int8_t)jfs_take8(&reader);
    take_message(&entry, &reader, file);
    const uint32_t queues = jfs_take32(&reader);
    return !reader.bad && queues <= INT32_MAX && 8 * (uint64_t)queues == jfs_left(&reader);
}

/* Whether reading may go on at `at`: a whole record is there, and behind it another one or the end of the page. A
 * message body can hold what looks like one record, but hardly what fits its surroundings. */
static int resumes(const scan_job *job, uint64_t at) {
    jfs_view content;
    if (frame_at(job, at, &content) != NULL || !decodes(job->bytes, content)) return 0;
    const uint64_t next = at + content.bytes + FRAME_BYTES;
    return job->size_bytes - next < FRAME_BYTES || frame_at(job, next, &content) == NULL;
}

/* Where reading goes on behind damage at `at`; the end of the page if nowhere. Holes are not looked into: that would
 * fill the memory with their zeros. */
static uint64_t resume_after(scan_job *job, uint64_t at) {
    const uint64_t stop = job->size_bytes - FRAME_BYTES + 1;
    uint64_t next = at + 1;
    while (next < stop) {
        const uint64_t end = next_data(job, &job->hole, &next, stop);
        const uint8_t *found = next < end ? memchr(job->bytes + next, OPENING, end - next) : NULL;
        next = found == NULL ? end : (uint64_t)(found - job->bytes);
        if (found == NULL) continue;
        if (resumes(job, next)) return next;
        next++;
    }
    return job->size_bytes;
}

/* Keeps the place of one record, so that those behind it keep their numbers as far as can be known. */
static jfs_status add_damaged(jfs_page *page, uint64_t offset, uint64_t bytes) {
    jfs_status status = page->count == page->capacity ? grow_entries(page) : JFS_OK;
    if (status != JFS_OK) return status;
    jfs_page_entry *entry = &page->entries[page->count];
    memset(entry, 0, sizeof *entry);
    entry->offset = offset;
    entry->payload_offset = offset;
    entry->record_bytes = entry->payload_bytes = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
    entry->queue_index = page->queue_count;
    entry->tx_id = -1;
    undecoded(entry);
    memset(&page->measures[page->count], 0, sizeof *page->measures);
    page->measures[page->count++].flags = JFS_MESSAGE_DAMAGED;
    return JFS_OK;
}

static jfs_status scan_body(void *context) {
    scan_job *job = context;
    jfs_page *page = job->out;
    uint64_t at = job->start;
    while (job->size_bytes - at >= FRAME_BYTES) {
        jfs_view content;
        const char *reason = frame_at(job, at, &content);
        jfs_status status;
        if (reason == NULL) {
            status = add_entry(page, job->bytes, at, content);
            at += content.bytes + FRAME_BYTES;
        } else {
            const uint64_t next = resume_after(job, at);
            if (next == job->size_bytes) {
                damaged(page, at, reason == no_record && only_zeros_from(job, at) ? "only zeros follow" : reason);
                break;
            }
            status = add_damaged(page, at, next - at);
            at = next;
        }
        if (status != JFS_OK) return status;
        page->end_offset = at;
    }
    return JFS_OK;
}

jfs_status jfs_scan_page(const uint8_t *bytes, uint64_t size_bytes, uint64_t start, const jfs_hole *holes,
                         uint32_t hole_count, jfs_page *out) {
    scan_job job = {bytes, size_bytes, start, holes, hole_count, 0, out};
    memset(out, 0, sizeof *out);
    out->end_offset = start;
    out->damaged_at = JFS_PAGE_WHOLE;
    if (start > size_bytes) return JFS_RANGE;
    return jfs_guarded(scan_body, &job);
}

void jfs_page_free(jfs_page *page) {
    free(page->entries);
    free(page->measures);
    free(page->queue_ids);
    memset(page, 0, sizeof *page);
}

jfs_status jfs_page_column(const jfs_page *page, int column, void *out) {
    for (uint32_t i = 0; i < page->count; i++) {
        switch (column) {
        case JFS_PAGE_TX_IDS: ((int64_t *)out)[i] = page->entries[i].tx_id; break;
        case JFS_PAGE_MESSAGE_IDS: ((int64_t *)out)[i] = page->measures[i].message_id; break;
        case JFS_PAGE_QUEUE_STARTS: ((uint32_t *)out)[i] = page->entries[i].queue_index; break;
        case JFS_PAGE_ALL_FLAGS: ((uint8_t *)out)[i] = page->entries[i].flags; break;
        case JFS_PAGE_EXPIRATIONS: ((int64_t *)out)[i] = page->measures[i].expiration_ms; break;
        case JFS_PAGE_MEASURE_FLAGS: ((uint8_t *)out)[i] = page->measures[i].flags; break;
        default: return JFS_RANGE;
        }
    }
    return JFS_OK;
}

uint32_t jfs_page_of_queue(const jfs_page *page, int64_t queue_id, uint32_t *out) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < page->count; i++) {
        const jfs_page_entry *entry = &page->entries[i];
        for (uint32_t j = 0; j < entry->queue_count; j++) {
            if (page->queue_ids[entry->queue_index + j] != queue_id) continue;
            out[found++] = i;
            break;
        }
    }
    return found;
}

jfs_status jfs_page_lines(const jfs_page *page, const uint8_t *bytes, const uint32_t *numbers, uint32_t count,
                          uint64_t prefix_bytes, int64_t now_ms, jfs_line *lines, uint64_t *starts) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] >= page->count) return JFS_RANGE;
        const jfs_page_entry *entry = &page->entries[numbers[i]];
        const jfs_measure *measure = &page->measures[numbers[i]];
        memset(&lines[i], 0, sizeof lines[i]);
        lines[i].payload = bytes + entry->payload_offset;
        lines[i].payload_bytes = entry->payload_bytes;
        lines[i].source = entry->source;
        if (measure->scheduled_ms > now_ms) lines[i].scheduled_ms = measure->scheduled_ms;
        starts[i] = at;
        at += jfs_line_frame_bytes(&lines[i], prefix_bytes) + measure->tail_bytes;
    }
    starts[count] = at;
    return JFS_OK;
}
