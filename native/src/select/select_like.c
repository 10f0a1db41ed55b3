/* LIKE, by characters: a pair of surrogates is one, and so is a byte that is no UTF-8. */
#include "reader.h"
#include "select.h"
#include "text.h"

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    int wide;
} characters;

static int32_t next_utf16(characters *text) {
    const int32_t first = text->at[0] | text->at[1] << 8;
    text->at += 2;
    if ((first & 0xfc00) != 0xd800 || text->end - text->at < 2) return first;
    const int32_t second = text->at[0] | text->at[1] << 8;
    if ((second & 0xfc00) != 0xdc00) return first;
    text->at += 2;
    return 0x10000 + ((first & 0x3ff) << 10) + (second & 0x3ff);
}

static int32_t next_utf8(characters *text) {
    static const uint8_t marks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const size_t length = jfs_utf8_sequence(text->at, text->end);
    if (length == 0) return 0xdc00 + *text->at++; /* as the envelope shows it */
    int32_t point = text->at[0] & marks[length];
    for (size_t i = 1; i < length; i++) point = point << 6 | (text->at[i] & 0x3f);
    text->at += length;
    return point;
}

static int32_t next(characters *text) { return text->wide ? next_utf16(text) : next_utf8(text); }

enum { LOOKED_EVERY = 65536 };

int jfs_select_like(const jfs_select_value *value, const int32_t *pattern, uint32_t count, jfs_select_work *work) {
    const int wide = value->utf16 != NULL;
    characters text = {wide ? value->utf16 : value->utf8, NULL, wide}, mark = {NULL, NULL, wide};
    uint32_t at = 0, behind_any = 0;
    text.end = text.at + (wide ? value->utf16_bytes & ~(uint64_t)1 : value->utf8_bytes);
    while (text.at < text.end) {
        if (++work->done % LOOKED_EVERY == 0 && work->stop != NULL && *work->stop) {
            work->stopped = 1;
            return 0;
        }
        if (at < count && pattern[at] == JFS_LIKE_ANY) {
            behind_any = ++at;
            if (at == count) return 1;
            mark = text;
            continue;
        }
        const int32_t character = next(&text);
        if (at < count && (pattern[at] == JFS_LIKE_ONE || pattern[at] == character)) {
            at++;
        } else if (mark.at == NULL) {
            return 0;
        } else { /* what stands behind the last % begins one character later */
            next(&mark);
            text = mark;
            text.end = mark.end;
            at = behind_any;
        }
    }
    while (at < count && pattern[at] == JFS_LIKE_ANY) at++;
    return at == count;
}
