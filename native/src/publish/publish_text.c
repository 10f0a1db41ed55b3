/* Lines, and the bodies of text messages: UTF-8 to UTF-16LE, ASCII sixteen characters at a time. */
#include "bytes.h"
#include "jfs_publish.h"
#include "text.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

uint64_t jfs_count_lines(const uint8_t *bytes, uint64_t length) {
    uint64_t count = 0;
    const uint8_t *at = bytes, *const end = bytes + length;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        count++;
        at++;
    }
    return count;
}

jfs_status jfs_split_lines(const uint8_t *bytes, uint64_t length, jfs_stretch *lines, uint64_t room,
                           uint64_t *count) {
    const uint8_t *begin = bytes, *const end = bytes + length;
    *count = 0;
    while (begin < end) {
        const uint8_t *const feed = memchr(begin, '\n', (size_t)(end - begin));
        if (feed == NULL) break;
        if (*count == room) return JFS_FULL;
        lines[(*count)++] = (jfs_stretch){(uint64_t)(begin - bytes), (uint64_t)(feed - bytes)};
        begin = feed + 1;
    }
    return JFS_OK;
}

enum { MARK_BYTES = 5 }; /* presence and length */

uint64_t jfs_text_bodies_room(uint64_t bytes, uint64_t count) {
    /* One byte of UTF-8 becomes at most two. */
    return 2 * bytes + MARK_BYTES * count;
}

static inline uint8_t *put_unit(uint8_t *out, uint32_t unit) {
    out[0] = (uint8_t)unit;
    out[1] = (uint8_t)(unit >> 8);
    return out + 2;
}

static uint8_t *put_point(uint8_t *out, const uint8_t *at, size_t width) {
    uint32_t point;
    switch (width) {
    case 1: return put_unit(out, at[0]);
    case 2: return put_unit(out, ((at[0] & 0x1fu) << 6) | (at[1] & 63u));
    case 3: return put_unit(out, ((at[0] & 15u) << 12) | ((at[1] & 63u) << 6) | (at[2] & 63u));
    default:
        point = ((at[0] & 7u) << 18) | ((at[1] & 63u) << 12) | ((at[2] & 63u) << 6) | (at[3] & 63u);
        point -= 0x10000;
        out = put_unit(out, 0xd800 + (point >> 10));
        return put_unit(out, 0xdc00 + (point & 0x3ff));
    }
}

/* The end of what was written, NULL when it is no UTF-8. */
static uint8_t *put_utf16(const uint8_t *at, const uint8_t *end, uint8_t *out) {
    while (at < end) {
#if defined(__SSE2__)
        while (end - at >= 16) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at), zero = _mm_setzero_si128();
            if (_mm_movemask_epi8(bytes) != 0) break;
            _mm_storeu_si128((__m128i *)(void *)out, _mm_unpacklo_epi8(bytes, zero));
            _mm_storeu_si128((__m128i *)(void *)(out + 16), _mm_unpackhi_epi8(bytes, zero));
            at += 16;
            out += 32;
        }
        if (at == end) break;
#endif
        const size_t width = jfs_utf8_sequence(at, end);
        if (width == 0) return NULL;
        out = put_point(out, at, width);
        at += width;
    }
    return out;
}

int jfs_texts_are_utf8(const uint8_t *bytes, const jfs_stretch *texts, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *at = bytes + texts[i].begin, *const end = bytes + texts[i].end;
        while (at < end) {
            const size_t width = *at < 0x80 ? 1 : jfs_utf8_sequence(at, end);
            if (width == 0) return 0;
            at += width;
        }
    }
    return 1;
}

void jfs_text_bodies(const uint8_t *bytes, const jfs_stretch *texts, uint64_t count, uint8_t *out, uint64_t *ends,
                     uint8_t *plain) {
    uint8_t *to = out;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *const at = bytes + texts[i].begin, *const end = bytes + texts[i].end;
        uint8_t *const after = put_utf16(at, end, to + MARK_BYTES);
        plain[i] = after == NULL;
        if (after == NULL) {
            memcpy(to, at, (size_t)(end - at));
            to += end - at;
        } else {
            to[0] = 1;
            store_u32(to + 1, (uint32_t)(after - to - MARK_BYTES));
            to = after;
        }
        ends[i] = (uint64_t)(to - out);
    }
}
