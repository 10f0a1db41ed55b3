/* The windowed sink: every rendered byte has a position, only those inside the window are stored. */
#ifndef JFS_SINK_H
#define JFS_SINK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A stretch of bytes that somebody else owns. */
typedef struct {
    const uint8_t *at;
    uint64_t bytes;
} jfs_view;

/* Where a long piece of output can be taken up again, counted from the piece's own beginning. */
typedef struct {
    uint64_t output;
    uint64_t source;
    uint64_t index;
} jfs_mark;

enum { JFS_MARKS = 8, JFS_HALVES = 32, JFS_SLOTS = 16 };

/* What is remembered of one long piece (a GB-sized text, a map with a million keys). */
typedef struct {
    const uint8_t *source;
    uint64_t total;   /* rendered bytes; JFS_UNKNOWN until it was once passed over */
    uint64_t touched; /* for choosing which slot to give up */
    jfs_mark marks[JFS_MARKS];   /* where windows ended */
    jfs_mark halves[JFS_HALVES]; /* on the way to a window, half of what was left each time; in rising order */
    uint32_t halves_count;
    uint32_t kind;
    uint32_t marks_made;
} jfs_slot;

#define JFS_UNKNOWN UINT64_MAX

typedef struct {
    jfs_slot slots[JFS_SLOTS];
    uint64_t clock;
} jfs_memory;

/*
 * Positions below `from` and from `to` on are counted but not stored. A sink with from = to = UINT64_MAX measures.
 * Once `pos` has reached `to`, what follows is of no interest: long pieces stop there and `pos` is no longer exact.
 */
typedef struct {
    uint8_t *out; /* receives position `from` */
    uint64_t pos;
    uint64_t from;
    uint64_t to;
    jfs_memory *memory; /* NULL: long pieces start from their beginning every time */
} jfs_sink;

/* Sources shorter than this are not worth remembering: rendering them again costs microseconds. */
enum { JFS_LONG_BYTES = 32768 };

/* Kinds of long pieces; one source may be rendered in several ways. */
enum {
    JFS_PIECE_TEXT = 0, /* plus the text encoding */
    JFS_PIECE_ENTRIES = 16,
    JFS_PIECE_STREAM = 17,
    JFS_PIECE_AMQP = 18,
    JFS_PIECE_CHAIN = 19,
    JFS_PIECE_SEQUENCES = 20,
    JFS_PIECE_PROPERTIES = 21,
    JFS_PIECE_TYPES = 22,
    JFS_PIECE_LENGTHS = 23,
    JFS_PIECE_RAW_CHAIN = 24,
};

/* A long piece being written. */
typedef struct {
    jfs_slot *slot; /* of another piece by now, where many long ones lie in this one */
    const uint8_t *source;
    uint32_t kind;
    uint64_t start;
    jfs_mark mark;     /* where to begin, and then where the step under way began */
    uint64_t halfway;  /* where to remember a mark on the way to the window */
    uint64_t distance; /* from the beginning to the window */
} jfs_piece;

void jfs_sink_measure(jfs_sink *sink);
void jfs_put_clipped(jfs_sink *sink, const uint8_t *bytes, size_t length);

/* 0: nothing of the piece lies in the window, and it has been passed over. 1: write it, beginning at `piece->mark`.
 */
int jfs_piece_begin(jfs_sink *sink, jfs_piece *piece, const uint8_t *source, uint64_t source_bytes, uint32_t kind);
/* Remembers where a step that begins now can be taken up. Whoever reads backwards comes by once more. */
void jfs_piece_pass(jfs_piece *piece);
/* The window is full: remember where the step began that crossed its end. */
void jfs_piece_stop(jfs_piece *piece);
void jfs_piece_end(jfs_sink *sink, jfs_piece *piece);

/* A step begins at so much of the source. */
static inline void jfs_piece_step(const jfs_sink *sink, jfs_piece *piece, uint64_t source, uint64_t index) {
    piece->mark = (jfs_mark){sink->pos - piece->start, source, index};
    if (piece->slot != NULL) piece->slot->touched = ++sink->memory->clock; /* long ones in it are given up first */
    if (piece->mark.output >= piece->halfway) jfs_piece_pass(piece);
}

static inline int jfs_full(const jfs_sink *sink) { return sink->pos >= sink->to; }

static inline int jfs_measuring(const jfs_sink *sink) { return sink->from == UINT64_MAX; }

static inline void jfs_put(jfs_sink *sink, const void *bytes, size_t length) {
    uint64_t pos = sink->pos;
    if (length == 0) return; /* `bytes` may be NULL */
    sink->pos = pos + length;
    if (pos >= sink->from) {
        if (sink->pos <= sink->to)
            memcpy(sink->out + (pos - sink->from), bytes, length);
        else if (pos < sink->to)
            memcpy(sink->out + (pos - sink->from), bytes, (size_t)(sink->to - pos));
    } else if (sink->pos > sink->from) {
        sink->pos = pos;
        jfs_put_clipped(sink, bytes, length);
    }
}

#define JFS_PUT(sink, literal) jfs_put((sink), "" literal, sizeof(literal) - 1)

static inline void jfs_put_byte(jfs_sink *sink, char byte) { jfs_put(sink, &byte, 1); }

void jfs_put_unsigned(jfs_sink *sink, uint64_t value);
void jfs_put_signed(jfs_sink *sink, int64_t value);
void jfs_put_bool(jfs_sink *sink, int value);
void jfs_put_hex(jfs_sink *sink, const uint8_t *bytes, size_t length);
/* 16 bytes as 8-4-4-4-12, without quotes. */
void jfs_put_uuid(jfs_sink *sink, const uint8_t *bytes);

/* base64.c: standard alphabet, padded, without quotes. Skips by arithmetic. */
void jfs_put_base64(jfs_sink *sink, jfs_view bytes);
uint64_t jfs_base64_bytes(uint64_t bytes);
/* All of it in the alphabet of URLs, into jfs_base64_bytes() of room. Returns how long it is. */
uint64_t jfs_base64_of_urls(jfs_view bytes, uint8_t *out);

/* number.c: the shortest digits that give the same value back; NaN and infinities as strings. */
void jfs_put_double(jfs_sink *sink, uint64_t bits);
void jfs_put_float(jfs_sink *sink, uint32_t bits);

#endif
