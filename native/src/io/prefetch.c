/* Reading ahead in mapped files. Only the array of lines is looked at, never a mapped byte, so no guard is needed. */
#define _DEFAULT_SOURCE /* madvise */
#include "jfs_prefetch.h"

#include <sys/mman.h>
#include <unistd.h>

/* Payloads this close are asked for as one stretch: the bytes between them cost less than another call. */
enum { GAP_BYTES = 65536 };

static void ask_for(uintptr_t begin, uintptr_t end) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    begin &= ~(page - 1);
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_WILLNEED);
}

/* The line that holds a position, by its start. */
static uint64_t line_at(const jfs_lines *lines, uint64_t position) {
    uint64_t low = 0, high = lines->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (lines->starts[middle + 1] <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void jfs_lines_prefetch(const jfs_lines *lines, uint64_t from, uint64_t to) {
    uintptr_t begin = 0, end = 0;
    for (uint64_t i = line_at(lines, from); i < lines->count && lines->starts[i] < to; i++) {
        const uintptr_t payload = (uintptr_t)lines->lines[i].payload;
        const uintptr_t payload_end = payload + lines->lines[i].payload_bytes;
        if (payload >= begin && payload <= end + GAP_BYTES && begin != 0) {
            if (payload_end > end) end = payload_end;
            continue;
        }
        ask_for(begin, end);
        begin = payload;
        end = payload_end;
    }
    ask_for(begin, end);
}
