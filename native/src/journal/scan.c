/* Finding the records of a journal file: the rules of docs/format/records.md, "Validity test". */
#include "jfs_scan.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "bytes.h"
#include "jfs_guard.h"

enum { KIND_FIRST = JFS_EVENT, KIND_LAST = JFS_ROLLBACK, RECORDS_FIRST = 256 };

/* Which fields follow the head of each kind. */
enum { HAS_TX = 1, HAS_ID = 2, HAS_BODY = 4, HAS_USER_TYPE = 8, HAS_COUNT = 16, HAS_EXTRA = 32 };

static const uint8_t fields_of[] = {
    [JFS_EVENT - KIND_FIRST] = HAS_ID | HAS_BODY | HAS_USER_TYPE,
    [JFS_ADD - KIND_FIRST] = HAS_ID | HAS_BODY | HAS_USER_TYPE,
    [JFS_UPDATE - KIND_FIRST] = HAS_ID | HAS_BODY | HAS_USER_TYPE,
    [JFS_ADD_TX - KIND_FIRST] = HAS_TX | HAS_ID | HAS_BODY | HAS_USER_TYPE,
    [JFS_UPDATE_TX - KIND_FIRST] = HAS_TX | HAS_ID | HAS_BODY | HAS_USER_TYPE,
    [JFS_DELETE_TX - KIND_FIRST] = HAS_TX | HAS_ID | HAS_BODY,
    [JFS_DELETE - KIND_FIRST] = HAS_ID,
    [JFS_PREPARE - KIND_FIRST] = HAS_TX | HAS_COUNT | HAS_EXTRA,
    [JFS_COMMIT - KIND_FIRST] = HAS_TX | HAS_COUNT,
    [JFS_ROLLBACK - KIND_FIRST] = HAS_TX,
};

/* What one attempt to read a record at a position found. */
typedef struct {
    uint64_t claimed_bytes; /* extent that a head of this file claims, 0 if it claims none that fits */
    uint8_t looks_begun;    /* kind and file id are right, the rest is not */
    uint8_t mark;           /* counts as data (journal.md, 2.2) */
} scan_attempt;

static int is_kind(uint8_t byte) { return (uint8_t)(byte - KIND_FIRST) <= KIND_LAST - KIND_FIRST; }

/* Reads the fields behind the head; *cursor ends behind them and the body. False: they overrun the file. */
static int read_fields(const uint8_t *bytes, uint64_t *cursor, uint64_t stop, jfs_record *out, scan_attempt *attempt) {
    const uint8_t fields = fields_of[out->kind - KIND_FIRST];
    const uint64_t fixed = ((fields & HAS_TX) ? 8U : 0U) + ((fields & HAS_ID) ? 8U : 0U);
    uint64_t at = *cursor;
    int32_t length = 0;
    attempt->mark = 1;
    if (stop - at < fixed) return 0;
    if (fields & HAS_TX) {
        out->tx_id = load_i64(bytes + at);
        at += 8;
    }
    if (fields & HAS_ID) {
        out->record_id = load_i64(bytes + at);
        at += 8;
    }
    if (fields & HAS_BODY) {
        if (stop - at < 4) return 0;
        length = load_i32(bytes + at);
        at += 4;
    }
    attempt->mark = 0; /* from here on an overrun does not make the file a data file */
    if (fields & HAS_USER_TYPE) {
        if (stop - at < 1) return 0;
        out->user_type = (int8_t)bytes[at];
        at += 1;
    }
    if (fields & HAS_COUNT) {
        if (stop - at < 4) return 0;
        out->count = load_i32(bytes + at);
        at += 4;
    }
    if (fields & HAS_EXTRA) {
        if (stop - at < 4) return 0;
        length = load_i32(bytes + at);
        at += 4;
        /* A negative length whose check agrees stops the broker's loader; it is damage. */
        attempt->mark = 1;
    }
    if (length < 0 || stop - at < (uint64_t)length) return 0;
    out->body_offset = (uint32_t)at;
    out->body_bytes = (uint32_t)length;
    attempt->mark = 1;
    *cursor = at + (uint64_t)length;
    return 1;
}

/* True and *out filled if a valid record lies at `at`; else *attempt says how far it looked like one. */
static int record_at(const uint8_t *bytes, uint64_t at, const jfs_scan_options *options, jfs_record *out,
                     scan_attempt *attempt) {
    const uint64_t stop = options->stop_offset;
    uint64_t cursor = at + 1;
    attempt->claimed_bytes = 0;
    attempt->looks_begun = 0;
    attempt->mark = 0;
    if (!is_kind(bytes[at])) return 0;
    if (stop - cursor < 4) {
        attempt->mark = 1;
        return 0;
    }
    if (!(options->flags & JFS_SCAN_ANY_RID) && load_i32(bytes + cursor) != options->rid) return 0;
    attempt->looks_begun = 1;
    attempt->mark = 1;
    cursor += 4;
    memset(out, 0, sizeof *out);
    out->kind = bytes[at];
    if (options->version >= 2) {
        if (stop - cursor < 1) return 0;
        out->compact_count = (int8_t)bytes[cursor];
        cursor += 1;
    }
    if (!read_fields(bytes, &cursor, stop, out, attempt)) return 0;
    attempt->claimed_bytes = cursor + 4 - at;
    if (stop - cursor < 4) {
        attempt->claimed_bytes = 0;
        return 0;
    }
    if (load_u32(bytes + cursor) != cursor + 4 - at) return 0;
    out->offset = (uint32_t)at;
    out->length = (uint32_t)(cursor + 4 - at);
    return 1;
}

/* ---- what lies where no record is: padding, holes, damage, a torn tail, remains of an older life ---- */

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
    record_at(bytes, at, options, &record, &attempt);
    *claimed = attempt.claimed_bytes;
    if (attempt.looks_begun) return 1;
    if (bytes[at] < JFS_EVENT || bytes[at] > JFS_ROLLBACK) return 0;
    /* A prefix of the file id and then zeros to the end: the head itself was cut. */
    for (i = 0; i < 4 && i + 1 < left; i++) {
        if (bytes[at + 1 + i] != (uint8_t)(rid >> (24 - 8 * i))) break;
    }
    return skip_zeros(bytes, at + 1 + i, options->stop_offset) == options->stop_offset;
}

static jfs_status gap_between(jfs_scan *scan, const uint8_t *bytes, uint64_t from, uint64_t to,
                            const jfs_scan_options *options) {
    const uint64_t text = skip_zeros(bytes, from, to);
    const int at_block = ends_at_block(bytes, from, to);
    uint64_t claimed;
    if (text == to) return gap_add(scan, from, to, at_block ? JFS_GAP_PADDING : JFS_GAP_ZEROED);
    /* Where unpadded records are followed by padded ones, the rest of the block keeps what an older life left. */
    if (at_block && !begins_like_record(bytes, from, options, &claimed)) return gap_add(scan, from, to, JFS_GAP_STALE);
    return gap_add(scan, from, to, JFS_GAP_GARBAGE);
}

static jfs_status gap_behind(jfs_scan *scan, const uint8_t *bytes, uint64_t from, const jfs_scan_options *options) {
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

/* ---- finding records ---- */

#ifdef __SSE2__
/* First position in [at, stop) where a record of this file may begin; stop if there is none.
 * Compares 16 positions at once; the last few bytes are left to record_at itself.
 */
static uint64_t next_candidate(const uint8_t *bytes, uint64_t at, const jfs_scan_options *options) {
    const __m128i first = _mm_set1_epi8(KIND_FIRST);
    const __m128i span = _mm_set1_epi8(KIND_LAST - KIND_FIRST);
    const uint32_t rid = (uint32_t)options->rid;
    const __m128i r0 = _mm_set1_epi8((char)(rid >> 24)), r1 = _mm_set1_epi8((char)(rid >> 16));
    const __m128i r2 = _mm_set1_epi8((char)(rid >> 8)), r3 = _mm_set1_epi8((char)rid);
    const __m128i any = _mm_set1_epi8((options->flags & JFS_SCAN_ANY_RID) ? -1 : 0);
    for (; options->stop_offset - at >= 20; at += 16) {
        const __m128i *const from = (const __m128i *)(const void *)(bytes + at);
        const __m128i kind = _mm_sub_epi8(_mm_loadu_si128(from), first);
        const __m128i is_a_kind = _mm_cmpeq_epi8(_mm_min_epu8(kind, span), kind);
        __m128i same;
        if (_mm_movemask_epi8(is_a_kind) == 0) continue;
        same = _mm_and_si128(
            _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(bytes + at + 1)), r0),
                          _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(bytes + at + 2)), r1)),
            _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(bytes + at + 3)), r2),
                          _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(bytes + at + 4)), r3)));
        const int hits = _mm_movemask_epi8(_mm_and_si128(is_a_kind, _mm_or_si128(same, any)));
        if (hits != 0) return at + (uint64_t)__builtin_ctz((unsigned)hits);
    }
    while (at < options->stop_offset && !is_kind(bytes[at])) at++;
    return at;
}
#else
static uint64_t next_candidate(const uint8_t *bytes, uint64_t at, const jfs_scan_options *options) {
    while (at < options->stop_offset && !is_kind(bytes[at])) at++;
    return at;
}
#endif

/* Kept out of line: the new array must be in the struct before the next mapped byte is read (see jfs_guard.h). */
__attribute__((noinline)) static jfs_status records_grow(jfs_scan *scan) {
    const uint64_t wanted = scan->capacity == 0 ? RECORDS_FIRST : (uint64_t)scan->capacity * 2;
    jfs_record *grown;
    if (wanted > UINT32_MAX) return JFS_NO_MEMORY;
    grown = realloc(scan->records, (size_t)wanted * sizeof *grown);
    if (grown == NULL) return JFS_NO_MEMORY;
    scan->records = grown;
    scan->capacity = (uint32_t)wanted;
    return JFS_OK;
}

typedef struct {
    const uint8_t *bytes;
    const jfs_scan_options *options;
    jfs_scan *out;
} scan_job;

static jfs_status scan_body(void *context) {
    const scan_job *const job = context;
    const jfs_scan_options *const options = job->options;
    jfs_scan *const out = job->out;
    uint64_t at = options->start_offset;
    uint64_t suspect_until = 0; /* records before this may be a damaged record's body */
    jfs_status status = JFS_OK;
    while (at < options->stop_offset) {
        scan_attempt attempt;
        jfs_record record;
        if (!record_at(job->bytes, at, options, &record, &attempt)) {
            if (attempt.mark) out->marked = 1;
            if (at + attempt.claimed_bytes > suspect_until) suspect_until = at + attempt.claimed_bytes;
            at = next_candidate(job->bytes, at + 1, options);
            continue;
        }
        if (at < suspect_until) record.flags = JFS_RECORD_IN_DAMAGE;
        if (out->count == out->capacity) status = records_grow(out);
        if (status == JFS_OK && at != out->end_offset) {
            status = gap_between(out, job->bytes, out->end_offset, at, options);
        }
        if (status != JFS_OK) return status;
        out->records[out->count++] = record;
        at += record.length;
        out->end_offset = (uint32_t)at;
    }
    return gap_behind(out, job->bytes, out->end_offset, options);
}

jfs_status jfs_scan_journal(const uint8_t *bytes, uint64_t size_bytes, const jfs_scan_options *options,
                            jfs_scan *out) {
    scan_job job = {bytes, options, out};
    memset(out, 0, sizeof *out);
    if (options->start_offset > options->stop_offset || options->stop_offset > size_bytes ||
        options->stop_offset > UINT32_MAX) {
        return JFS_RANGE;
    }
    out->end_offset = (uint32_t)options->start_offset;
    return options->start_offset == options->stop_offset ? JFS_OK : jfs_guarded(scan_body, &job);
}

void jfs_scan_free(jfs_scan *scan) {
    free(scan->records);
    free(scan->gaps);
    memset(scan, 0, sizeof *scan);
}
