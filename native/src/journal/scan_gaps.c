/* What lies where no record is: padding, holes, damage, a torn tail, remains of an older life. */
#include <stdlib.h>

#include "bytes.h"
#include "scan_internal.h"

/* Flushes are padded to a block under AIO. 512 is the smallest block a device has, 4096 what the broker detects on
 * common ones; a file whose first record lies further in says that its blocks are that large. */
enum { BLOCK_SMALLEST = 512, BLOCK_USUAL = 4096, HEADER_BYTES = 16, GAPS_FIRST = 16 };

static uint64_t skip_zeros(const uint8_t *bytes, uint64_t from, uint64_t to) {
    uint64_t word;
    while (to - from >= 64) {
        uint64_t words[8];
        memcpy(words, bytes + from, sizeof words);
        if ((words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]) != 0) break;
        from += 64;
    }
    while (to - from >= 8) {
        memcpy(&word, bytes + from, sizeof word);
        if (word != 0) break;
        from += 8;
    }
    while (from < to && bytes[from] == 0) from++;
    return from;
}

/* Behind the last byte of [from, to) that is not zero; from if all are. */
static uint64_t trim_zeros(const uint8_t *bytes, uint64_t from, uint64_t to) {
    uint64_t word;
    while (to - from >= 8) {
        memcpy(&word, bytes + to - 8, sizeof word);
        if (word != 0) break;
        to -= 8;
    }
    while (to > from && bytes[to - 1] == 0) to--;
    return to;
}

__attribute__((noinline)) static jfs_status gap_add(jfs_scan *scan, uint64_t from, uint64_t to, uint32_t kind) {
    jfs_gap *gap;
    if (scan->gap_count == scan->gap_capacity) {
        const uint64_t wanted = scan->gap_capacity == 0 ? GAPS_FIRST : (uint64_t)scan->gap_capacity * 2;
        jfs_gap *grown = wanted > UINT32_MAX ? NULL : realloc(scan->gaps, (size_t)wanted * sizeof *grown);
        if (grown == NULL) return JFS_NO_MEMORY;
        scan->gaps = grown;
        scan->gap_capacity = (uint32_t)wanted;
    }
    gap = &scan->gaps[scan->gap_count++];
    gap->offset = (uint32_t)from;
    gap->length = (uint32_t)(to - from);
    gap->kind = kind;
    return JFS_OK;
}

/* The largest blocks that flushes of this file may be padded to, as far as [0, to) tells. */
static uint64_t block_of(const uint8_t *bytes, uint64_t to) {
    const uint64_t first = to > HEADER_BYTES ? skip_zeros(bytes, HEADER_BYTES, to) : 0;
    return first > BLOCK_USUAL && (first & (first - 1)) == 0 ? first : BLOCK_USUAL;
}

/* True if a flush padded to a block could have left [from, to) unused. */
static int ends_at_block(const uint8_t *bytes, uint64_t from, uint64_t to) {
    const uint64_t block = to & (~to + 1); /* the largest power of two that divides to */
    if (from == HEADER_BYTES && block == to) return 1;
    if (block < BLOCK_SMALLEST || to - from >= block) return 0;
    return to - from < BLOCK_USUAL || to - from < block_of(bytes, from);
}

/* True if bytes[at...] begins like a record of this file, be it only by the few bytes that reached the disk. */
static int begins_like_record(const uint8_t *bytes, uint64_t at, const jfs_scan_options *options, uint64_t *claimed) {
    const uint64_t left = options->stop_offset - at;
    const uint32_t rid = (uint32_t)options->rid;
    scan_attempt attempt;
    jfs_record record;
    uint64_t i;
    scan_record(bytes, at, options, &record, &attempt);
    *claimed = attempt.claimed_bytes;
    if (attempt.looks_begun) return 1;
    if (bytes[at] < JFS_EVENT || bytes[at] > JFS_ROLLBACK) return 0;
    /* A prefix of the file id and then zeros to the end: the head itself was cut. */
    for (i = 0; i < 4 && i + 1 < left; i++) {
        if (bytes[at + 1 + i] != (uint8_t)(rid >> (24 - 8 * i))) break;
    }
    return skip_zeros(bytes, at + 1 + i, options->stop_offset) == options->stop_offset;
}

jfs_status scan_gap_between(jfs_scan *scan, const uint8_t *bytes, uint64_t from, uint64_t to,
                            const jfs_scan_options *options) {
    const uint64_t text = skip_zeros(bytes, from, to);
    const int at_block = ends_at_block(bytes, from, to);
    uint64_t claimed;
    if (text == to) return gap_add(scan, from, to, at_block ? JFS_GAP_PADDING : JFS_GAP_ZEROED);
    /* Where unpadded records are followed by padded ones, the rest of the block keeps what an older life left. */
    if (at_block && !begins_like_record(bytes, from, options, &claimed)) return gap_add(scan, from, to, JFS_GAP_STALE);
    return gap_add(scan, from, to, JFS_GAP_GARBAGE);
}

jfs_status scan_gap_behind(jfs_scan *scan, const uint8_t *bytes, uint64_t from, const jfs_scan_options *options) {
    const uint64_t stop = options->stop_offset;
    const uint64_t text = skip_zeros(bytes, from, stop);
    uint64_t end, claimed;
    jfs_status status = JFS_OK;
    if (text == stop) return JFS_OK;
    end = trim_zeros(bytes, text, stop);
    if ((text == from || text % BLOCK_SMALLEST == 0) && begins_like_record(bytes, text, options, &claimed)) {
        const uint64_t torn_end = claimed != 0 ? text + claimed : end;
        status = gap_add(scan, text, torn_end, JFS_GAP_TORN);
        from = torn_end;
    }
    if (status == JFS_OK && skip_zeros(bytes, from, stop) != stop) {
        status = gap_add(scan, skip_zeros(bytes, from, stop), end, JFS_GAP_STALE);
    }
    return status;
}
