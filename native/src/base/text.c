/* Text transcoding: ASCII sixteen characters at a time, everything else one by one. */
#include "text.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { STEP_BYTES = 8192, FINE_BYTES = 48 };

static inline uint32_t load_le16(const uint8_t *at) { return (uint32_t)at[0] | ((uint32_t)at[1] << 8); }

static inline int is_high(uint32_t unit) { return (unit & 0xfc00) == 0xd800; }
static inline int is_low(uint32_t unit) { return (unit & 0xfc00) == 0xdc00; }

static const char hex_digits[] = "0123456789abcdef";

static inline uint8_t *write_escape(uint8_t *out, uint32_t unit) {
    out[0] = '\\';
    out[1] = 'u';
    out[2] = (uint8_t)hex_digits[(unit >> 12) & 15];
    out[3] = (uint8_t)hex_digits[(unit >> 8) & 15];
    out[4] = (uint8_t)hex_digits[(unit >> 4) & 15];
    out[5] = (uint8_t)hex_digits[unit & 15];
    return out + 6;
}

/* The letter of a two-character escape, 0 where there is none. */
static inline uint8_t short_escape(uint32_t unit) {
    switch (unit) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\t': return 't';
    case '\n': return 'n';
    case '\f': return 'f';
    case '\r': return 'r';
    default: return 0;
    }
}

/* ASCII that stands for itself inside a JSON string. */
static inline int is_plain(uint32_t unit) { return unit >= 0x20 && unit != '"' && unit != '\\'; }

static inline uint8_t *write_ascii_json(uint8_t *out, uint32_t unit) {
    if (is_plain(unit)) {
        *out = (uint8_t)unit;
        return out + 1;
    }
    uint8_t letter = short_escape(unit);
    if (letter != 0) {
        out[0] = '\\';
        out[1] = letter;
        return out + 2;
    }
    return write_escape(out, unit);
}

static inline size_t ascii_json_bytes(uint32_t unit) {
    if (is_plain(unit)) return 1;
    return short_escape(unit) != 0 ? 2 : 6;
}

static inline uint8_t *write_utf8(uint8_t *out, uint32_t point) {
    if (point < 0x80) {
        *out++ = (uint8_t)point;
    } else if (point < 0x800) {
        *out++ = (uint8_t)(0xc0 | (point >> 6));
        *out++ = (uint8_t)(0x80 | (point & 63));
    } else if (point < 0x10000) {
        *out++ = (uint8_t)(0xe0 | (point >> 12));
        *out++ = (uint8_t)(0x80 | ((point >> 6) & 63));
        *out++ = (uint8_t)(0x80 | (point & 63));
    } else {
        *out++ = (uint8_t)(0xf0 | (point >> 18));
        *out++ = (uint8_t)(0x80 | ((point >> 12) & 63));
        *out++ = (uint8_t)(0x80 | ((point >> 6) & 63));
        *out++ = (uint8_t)(0x80 | (point & 63));
    }
    return out;
}

#if defined(__SSE2__)
/* Bit i is set when byte i needs care in a JSON string: a control character, a quote or a backslash. */
static inline int json_care(__m128i bytes) {
    __m128i care = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    care = _mm_or_si128(care, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    care = _mm_or_si128(care, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    return _mm_movemask_epi8(care);
}

/* Sixteen UTF-16 units narrowed to bytes; bit i of *wide is set when unit i is no ASCII. */
static inline __m128i narrow16(const uint8_t *at, int *wide) {
    const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)at);
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(at + 16));
    const __m128i mask = _mm_set1_epi16((short)0xff80), zero = _mm_setzero_si128();
    __m128i ascii = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_and_si128(low, mask), zero),
                                    _mm_cmpeq_epi16(_mm_and_si128(high, mask), zero));
    *wide = _mm_movemask_epi8(ascii) ^ 0xffff;
    return _mm_packus_epi16(low, high);
}
#endif

#if defined(__SSE2__)
static inline uint32_t bits_set(int mask) { return (uint32_t)__builtin_popcount((unsigned)mask); }

/* Bytes beyond one each that the characters in `ascii` (a mask) of a JSON string take for their escapes. */
static inline uint32_t escape_bytes(__m128i bytes, int ascii) {
    const __m128i from8 = _mm_sub_epi8(bytes, _mm_set1_epi8(8)); /* 8 to 13 become 0 to 5; 11 has no short form */
    __m128i two = _mm_cmpeq_epi8(_mm_min_epu8(from8, _mm_set1_epi8(5)), from8);
    two = _mm_andnot_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(11)), two);
    two = _mm_or_si128(two, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    two = _mm_or_si128(two, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    const int short_ones = _mm_movemask_epi8(two) & ascii;
    return bits_set(short_ones) + 5 * bits_set(json_care(bytes) & ascii & ~short_ones);
}

/* Sixteen units that are not all plain: their bytes, or 0 when there are surrogates among them. */
static inline uint32_t count_wide16(const uint8_t *at, __m128i bytes, int wide, int json) {
    const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)at);
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(at + 16));
    const __m128i top = _mm_set1_epi16((short)0xf800), zero = _mm_setzero_si128();
    const __m128i low_top = _mm_and_si128(low, top), high_top = _mm_and_si128(high, top);
    const __m128i surrogate = _mm_set1_epi16((short)0xd800);
    if (_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi16(low_top, surrogate), _mm_cmpeq_epi16(high_top, surrogate))))
        return 0;
    const int two_at_most =
        _mm_movemask_epi8(_mm_packs_epi16(_mm_cmpeq_epi16(low_top, zero), _mm_cmpeq_epi16(high_top, zero)));
    uint32_t count = 16 + bits_set(wide) + bits_set(~two_at_most & 0xffff);
    return json ? count + escape_bytes(bytes, ~wide & 0xffff) : count;
}
#endif

/* One character of UTF-16 at `at`; *used = 2 or 4 bytes. Lone surrogates come back as themselves. */
static inline uint32_t take_utf16(const uint8_t *at, const uint8_t *end, size_t *used) {
    uint32_t unit = load_le16(at);
    *used = 2;
    if (!is_high(unit) || end - at < 4) return unit;
    uint32_t next = load_le16(at + 2);
    if (!is_low(next)) return unit;
    *used = 4;
    return 0x10000 + ((unit - 0xd800) << 10) + (next - 0xdc00);
}

static inline uint8_t *write_point(uint8_t *out, uint32_t point, int json) {
    if (json && point < 0x80) return write_ascii_json(out, point);
    if (json && point >= 0xd800 && point < 0xe000) return write_escape(out, point);
    return write_utf8(out, point);
}

static inline size_t point_bytes(uint32_t point, int json) {
    if (point < 0x80) return json ? ascii_json_bytes(point) : 1;
    if (json && point >= 0xd800 && point < 0xe000) return 6;
    return point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

static inline size_t convert_utf16(const uint8_t *at, const uint8_t *stop, const uint8_t *end, int json, uint8_t *out,
                                   size_t *used) {
    const uint8_t *begin = at;
    uint8_t *to = out;
    while (at < stop) {
#if defined(__SSE2__)
        while (stop - at >= 32) {
            int wide, care;
            __m128i bytes = narrow16(at, &wide);
            care = wide | (json ? json_care(bytes) : 0);
            _mm_storeu_si128((__m128i *)(void *)to, bytes);
            if (care != 0) {
                int plain = __builtin_ctz((unsigned)care);
                to += plain;
                at += 2 * plain;
                break;
            }
            to += 16;
            at += 32;
        }
        if (stop - at >= 16) {
            const __m128i eight = _mm_loadu_si128((const __m128i *)(const void *)at);
            const __m128i bytes = _mm_packus_epi16(eight, eight);
            const __m128i wide =
                _mm_cmpgt_epi16(_mm_and_si128(eight, _mm_set1_epi16((short)0xff80)), _mm_setzero_si128());
            const int negative = _mm_movemask_epi8(eight) & 0xaaaa;
            if (_mm_movemask_epi8(wide) == 0 && negative == 0 && (!json || json_care(bytes) == 0)) {
                _mm_storel_epi64((__m128i *)(void *)to, bytes);
                to += 8;
                at += 16;
            }
        }
        if (at >= stop) break;
#endif
        uint32_t point;
        do { /* as long as text stays outside ASCII, trying sixteen at once would fail every time */
            size_t width;
            point = take_utf16(at, end, &width);
            to = write_point(to, point, json);
            at += width;
        } while (point >= 0x80 && at < stop);
    }
    *used = (size_t)(at - begin);
    return (size_t)(to - out);
}

static inline uint64_t count_utf16(const uint8_t *at, const uint8_t *stop, const uint8_t *end, int json,
                                   size_t *used) {
    const uint8_t *begin = at;
    uint64_t count = 0;
    while (at < stop) {
#if defined(__SSE2__)
        while (stop - at >= 32) {
            int wide;
            __m128i bytes = narrow16(at, &wide);
            uint32_t sixteen = 16;
            if ((wide | (json ? json_care(bytes) : 0)) != 0) sixteen = count_wide16(at, bytes, wide, json);
            if (sixteen == 0) break;
            count += sixteen;
            at += 32;
        }
#endif
        const uint8_t *near = stop - at > 32 ? at + 32 : stop;
        while (at < near) {
            size_t width;
            count += point_bytes(take_utf16(at, end, &width), json);
            at += width;
        }
    }
    *used = (size_t)(at - begin);
    return count;
}

size_t jfs_utf8_sequence(const uint8_t *at, const uint8_t *end) {
    const uint8_t first = at[0];
    const size_t left = (size_t)(end - at);
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    if (first < 0xe0) return left >= 2 && (at[1] & 0xc0) == 0x80 ? 2 : 0;
    if (left < 3 || (at[1] & 0xc0) != 0x80 || (at[2] & 0xc0) != 0x80) return 0;
    if (first < 0xf0) {
        if (first == 0xe0 && at[1] < 0xa0) return 0; /* overlong */
        if (first == 0xed && at[1] > 0x9f) return 0; /* surrogates */
        return 3;
    }
    if (left < 4 || (at[3] & 0xc0) != 0x80) return 0;
    if (first == 0xf0 && at[1] < 0x90) return 0;
    if (first == 0xf4 && at[1] > 0x8f) return 0;
    return 4;
}

static size_t convert_utf8(const uint8_t *at, const uint8_t *stop, const uint8_t *end, uint8_t *out, size_t *used) {
    const uint8_t *begin = at;
    uint8_t *to = out;
    while (at < stop) {
#if defined(__SSE2__)
        while (stop - at >= 16) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
            int care = json_care(bytes) | _mm_movemask_epi8(bytes);
            _mm_storeu_si128((__m128i *)(void *)to, bytes);
            if (care != 0) {
                int plain = __builtin_ctz((unsigned)care);
                to += plain;
                at += plain;
                break;
            }
            to += 16;
            at += 16;
        }
        if (at >= stop) break;
#endif
        do {
            size_t width = jfs_utf8_sequence(at, end);
            if (width == 0) {
                to = write_escape(to, 0xdc00u | *at++);
            } else if (width == 1) {
                to = write_ascii_json(to, *at++);
                break;
            } else {
                for (size_t i = 0; i < width; i++) *to++ = *at++;
            }
        } while (at < stop);
    }
    *used = (size_t)(at - begin);
    return (size_t)(to - out);
}

static uint64_t count_utf8(const uint8_t *at, const uint8_t *stop, const uint8_t *end, size_t *used) {
    const uint8_t *begin = at;
    uint64_t count = 0;
    while (at < stop) {
#if defined(__SSE2__)
        while (stop - at >= 16) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
            if (_mm_movemask_epi8(bytes) != 0) break;
            count += json_care(bytes) == 0 ? 16 : 16 + escape_bytes(bytes, 0xffff);
            at += 16;
        }
#endif
        const uint8_t *near = stop - at > 16 ? at + 16 : stop;
        while (at < near) {
            size_t width = jfs_utf8_sequence(at, end);
            count += width == 0 ? 6 : width == 1 ? ascii_json_bytes(*at) : width;
            at += width == 0 ? 1 : width;
        }
    }
    *used = (size_t)(at - begin);
    return count;
}

size_t jfs_convert(jfs_view text, size_t step, jfs_text how, uint8_t *out, size_t *used) {
    const uint8_t *end = text.at + text.bytes, *stop = step < text.bytes ? text.at + step : end;
    if (how == JFS_UTF8_JSON) return convert_utf8(text.at, stop, end, out, used);
    if (how == JFS_UTF16LE_JSON) return convert_utf16(text.at, stop, end, 1, out, used);
    return convert_utf16(text.at, stop, end, 0, out, used);
}

static uint64_t count_step(jfs_view text, size_t step, jfs_text how, size_t *used) {
    const uint8_t *end = text.at + text.bytes, *stop = step < text.bytes ? text.at + step : end;
    if (how == JFS_UTF8_JSON) return count_utf8(text.at, stop, end, used);
    if (how == JFS_UTF16LE_JSON) return count_utf16(text.at, stop, end, 1, used);
    return count_utf16(text.at, stop, end, 0, used);
}

uint64_t jfs_text_bytes(jfs_view text, jfs_text how) {
    size_t used;
    if (how != JFS_UTF8_JSON) text.bytes &= ~(uint64_t)1;
    return text.bytes == 0 ? 0 : count_step(text, text.bytes, how, &used);
}

/* One step where the window begins or ends inside it: converted aside, in small pieces, then clipped. */
static void put_fine(jfs_sink *sink, jfs_view text, size_t step, jfs_text how, size_t *used) {
    uint8_t aside[6 * FINE_BYTES + 48];
    size_t done = 0;
    while (done < step && done < text.bytes && !jfs_full(sink)) {
        size_t part = step - done < FINE_BYTES ? step - done : FINE_BYTES, consumed;
        jfs_view rest = {text.at + done, text.bytes - done};
        size_t length = jfs_convert(rest, part, how, aside, &consumed);
        jfs_put(sink, aside, length);
        done += consumed;
    }
    *used = done;
}

void jfs_put_text(jfs_sink *sink, jfs_view text, jfs_text how) {
    size_t used;
    if (how != JFS_UTF8_JSON) text.bytes &= ~(uint64_t)1;
    if (text.bytes == 0 || jfs_full(sink)) return;
    if (text.bytes <= STEP_BYTES && sink->pos >= sink->from && sink->to - sink->pos >= 6 * text.bytes + 24) {
        sink->pos += jfs_convert(text, text.bytes, how, sink->out + (sink->pos - sink->from), &used);
        return;
    }
    if (jfs_measuring(sink)) {
        sink->pos += count_step(text, text.bytes, how, &used);
        return;
    }
    jfs_piece piece;
    if (!jfs_piece_begin(sink, &piece, text.at, text.bytes, JFS_PIECE_TEXT + (uint32_t)how)) return;
    uint64_t done = piece.mark.source;
    while (done < text.bytes) {
        jfs_view rest = {text.at + done, text.bytes - done};
        jfs_piece_step(sink, &piece, done, 0);
        if (sink->pos < sink->from) {
            uint64_t length = count_step(rest, STEP_BYTES, how, &used);
            if (sink->pos + length <= sink->from)
                sink->pos += length;
            else
                put_fine(sink, rest, STEP_BYTES, how, &used);
        } else {
            uint64_t room = (sink->to - sink->pos) / 6, step = room > STEP_BYTES + 4 ? STEP_BYTES
                                                               : room < 4            ? 0
                                                                                     : room - 4;
            if (step >= FINE_BYTES)
                sink->pos += jfs_convert(rest, step, how, sink->out + (sink->pos - sink->from), &used);
            else
                put_fine(sink, rest, FINE_BYTES, how, &used);
        }
        if (jfs_full(sink)) {
            jfs_piece_stop(&piece);
            /* The text may have ended exactly here; what comes after it is outside the window in any case. */
            return;
        }
        done += used;
    }
    jfs_piece_end(sink, &piece);
}

void jfs_put_string16(jfs_sink *sink, jfs_view utf16) {
    jfs_put_byte(sink, '"');
    jfs_put_text(sink, utf16, JFS_UTF16LE_JSON);
    jfs_put_byte(sink, '"');
}

void jfs_put_string8(jfs_sink *sink, jfs_view utf8) {
    jfs_put_byte(sink, '"');
    jfs_put_text(sink, utf8, JFS_UTF8_JSON);
    jfs_put_byte(sink, '"');
}
