/* The windowed sink's slow paths, small values, and the memory of long pieces. */
#include "sink.h"

void jfs_sink_measure(jfs_sink *sink) {
    sink->out = NULL;
    sink->pos = 0;
    sink->from = UINT64_MAX;
    sink->to = UINT64_MAX;
    sink->memory = NULL;
}

void jfs_put_clipped(jfs_sink *sink, const uint8_t *bytes, size_t length) {
    uint64_t begin = sink->pos, end = begin + length;
    sink->pos = end;
    if (begin < sink->from) begin = sink->from;
    if (end > sink->to) end = sink->to;
    if (begin < end)
        memcpy(sink->out + (begin - sink->from), bytes + (begin - (sink->pos - length)), (size_t)(end - begin));
}

static const char two_digits[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404"
                                 "142434445464748495051525354555657585960"
                                 "6162636465666768697071727374757677787980818283848586878889909192939495969798990";

static size_t decimal(char *end, uint64_t value) {
    char *at = end;
    while (value >= 100) {
        const char *pair = two_digits + 2 * (value % 100);
        value /= 100;
        *--at = pair[1];
        *--at = pair[0];
    }
    if (value >= 10) {
        *--at = two_digits[2 * value + 1];
        *--at = two_digits[2 * value];
    } else {
        *--at = (char)('0' + value);
    }
    return (size_t)(end - at);
}

void jfs_put_unsigned(jfs_sink *sink, uint64_t value) {
    char digits[24], *end = digits + sizeof digits;
    size_t length = decimal(end, value);
    jfs_put(sink, end - length, length);
}

void jfs_put_signed(jfs_sink *sink, int64_t value) {
    char digits[24], *end = digits + sizeof digits;
    size_t length;
    if (value >= 0) {
        length = decimal(end, (uint64_t)value);
    } else {
        length = decimal(end, 0 - (uint64_t)value) + 1;
        *(end - length) = '-';
    }
    jfs_put(sink, end - length, length);
}

void jfs_put_bool(jfs_sink *sink, int value) {
    if (value)
        JFS_PUT(sink, "true");
    else
        JFS_PUT(sink, "false");
}

static const char hex_digits[] = "0123456789abcdef";

void jfs_put_hex(jfs_sink *sink, const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        char pair[2] = {hex_digits[bytes[i] >> 4], hex_digits[bytes[i] & 15]};
        jfs_put(sink, pair, 2);
    }
}

void jfs_put_uuid(jfs_sink *sink, const uint8_t *bytes) {
    char text[36];
    size_t at = 0;
    if (jfs_measuring(sink)) {
        sink->pos += sizeof text;
        return;
    }
    for (size_t i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
        text[at++] = hex_digits[bytes[i] >> 4];
        text[at++] = hex_digits[bytes[i] & 15];
    }
    jfs_put(sink, text, sizeof text);
}

static jfs_slot *find_slot(jfs_memory *memory, const uint8_t *source, uint32_t kind) {
    jfs_slot *oldest = &memory->slots[0];
    for (size_t i = 0; i < JFS_SLOTS; i++) {
        jfs_slot *slot = &memory->slots[i];
        if (slot->source == source && slot->kind == kind) {
            slot->touched = ++memory->clock;
            return slot;
        }
        if (slot->touched < oldest->touched) oldest = slot;
    }
    memset(oldest, 0, sizeof *oldest);
    oldest->source = source;
    oldest->kind = kind;
    oldest->total = JFS_UNKNOWN;
    oldest->touched = ++memory->clock;
    return oldest;
}

/* The last of these marks that does not lie behind the window's beginning, if it is better than `best`. */
static jfs_mark better(const jfs_mark *marks, uint32_t count, uint64_t distance, jfs_mark best) {
    for (uint32_t i = 0; i < count; i++)
        if (marks[i].output <= distance && marks[i].output > best.output) best = marks[i];
    return best;
}

static uint64_t half_of_the_rest(const jfs_piece *piece) {
    const uint64_t done = piece->mark.output;
    return done + JFS_LONG_BYTES > piece->distance ? UINT64_MAX : done + (piece->distance - done) / 2;
}

int jfs_piece_begin(jfs_sink *sink, jfs_piece *piece, const uint8_t *source, uint64_t source_bytes, uint32_t kind) {
    piece->slot = NULL;
    piece->source = source;
    piece->kind = kind;
    piece->start = sink->pos;
    piece->mark = (jfs_mark){0, 0, 0};
    piece->halfway = UINT64_MAX;
    piece->distance = sink->from > sink->pos ? sink->from - sink->pos : 0;
    if (jfs_full(sink)) return 0;
    if (sink->memory == NULL || source_bytes < JFS_LONG_BYTES) return 1;
    jfs_slot *slot = find_slot(sink->memory, source, kind);
    piece->slot = slot;
    if (slot->total != JFS_UNKNOWN && sink->pos + slot->total <= sink->from) {
        sink->pos += slot->total;
        return 0;
    }
    const uint32_t marks = slot->marks_made < JFS_MARKS ? slot->marks_made : JFS_MARKS;
    piece->mark = better(slot->marks, marks, piece->distance, piece->mark);
    piece->mark = better(slot->halves, slot->halves_count, piece->distance, piece->mark);
    piece->halfway = half_of_the_rest(piece);
    sink->pos = piece->start + piece->mark.output;
    return 1;
}

static jfs_slot *own_slot(const jfs_piece *piece) {
    jfs_slot *const slot = piece->slot;
    return slot != NULL && slot->source == piece->source && slot->kind == piece->kind ? slot : NULL;
}

void jfs_piece_pass(jfs_piece *piece) {
    jfs_slot *const slot = own_slot(piece);
    piece->halfway = half_of_the_rest(piece);
    if (slot == NULL) return;
    uint32_t count = slot->halves_count;
    while (count > 0 && slot->halves[count - 1].output >= piece->mark.output) count--;
    if (count == JFS_HALVES) {
        for (count = 0; count < JFS_HALVES / 2; count++) slot->halves[count] = slot->halves[2 * count];
    }
    slot->halves[count] = piece->mark;
    slot->halves_count = count + 1;
}

void jfs_piece_stop(jfs_piece *piece) {
    jfs_slot *const slot = own_slot(piece);
    if (slot == NULL || piece->mark.output == 0) return;
    slot->marks[slot->marks_made++ % JFS_MARKS] = piece->mark;
}

void jfs_piece_end(jfs_sink *sink, jfs_piece *piece) {
    jfs_slot *const slot = own_slot(piece);
    if (slot != NULL && sink->pos <= sink->to) slot->total = sink->pos - piece->start;
}
