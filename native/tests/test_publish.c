/* Lines, JSON values and text bodies, in memory of exactly their size, however the bytes are cut. */
#include "check.h"
#include "jfs_publish.h"
#include "text.h"

static void *exactly(const void *bytes, size_t length) {
    void *copy = malloc(length);
    CHECK(copy != NULL || length == 0);
    if (length > 0) memcpy(copy, bytes, length);
    return copy;
}

static void check_bodies(const char *text, size_t length, const uint8_t *expected, size_t expected_bytes, int plain) {
    uint8_t *source = exactly(text, length), is_plain = 9;
    const uint64_t room = jfs_text_bodies_room(length, 1);
    uint8_t *out = malloc(room);
    uint64_t end;
    const jfs_stretch whole = {0, length};
    jfs_text_bodies(source, &whole, 1, out, &end, &is_plain);
    CHECK_EQ(end, expected_bytes);
    CHECK_EQ(is_plain, plain);
    CHECK(memcmp(out, expected, expected_bytes) == 0);
    free(source);
    free(out);
}

static void bodies(void) {
    static const uint8_t empty[] = {1, 0, 0, 0, 0};
    static const uint8_t mixed[] = {1, 0, 0, 0, 10, 'a', 0, 0xe9, 0, 0xac, 0x20, 0x3d, 0xd8, 0x80, 0xde};
    check_bodies("", 0, empty, sizeof empty, 0);
    check_bodies("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80", 10, mixed, sizeof mixed, 0);
    check_bodies("\xc3", 1, (const uint8_t *)"\xc3", 1, 1);
    check_bodies("0123456789abcdef\xff", 17, (const uint8_t *)"0123456789abcdef\xff", 17, 1);
    for (size_t length = 0; length < 70; length++) { /* around the steps of sixteen */
        char text[70];
        uint8_t expected[5 + 140] = {1, 0, 0, 0, (uint8_t)(2 * length)};
        for (size_t i = 0; i < length; i++) {
            text[i] = (char)('a' + i % 26);
            expected[5 + 2 * i] = (uint8_t)text[i];
        }
        check_bodies(text, length, expected, 5 + 2 * length, 0);
    }
}

static void lines(void) {
    static const char text[] = "one\n\ntwo\nrest";
    uint8_t *source = exactly(text, sizeof text - 1);
    jfs_stretch found[3];
    uint64_t count;
    CHECK_EQ(jfs_count_lines(source, sizeof text - 1), 3);
    CHECK_EQ(jfs_split_lines(source, sizeof text - 1, found, 3, &count), JFS_OK);
    CHECK_EQ(count, 3);
    CHECK(found[0].begin == 0 && found[0].end == 3);
    CHECK(found[1].begin == 4 && found[1].end == 4);
    CHECK(found[2].begin == 5 && found[2].end == 8);
    CHECK_EQ(jfs_split_lines(source, sizeof text - 1, found, 2, &count), JFS_FULL);
    CHECK_EQ(count, 2);
    CHECK_EQ(jfs_split_lines(source, 0, found, 0, &count), JFS_OK);
    CHECK_EQ(count, 0);
    free(source);
}

/* Feeds `text` cut at `cut`, with room for `room` values a call; the values found, separated by bars. */
static void check_values(const char *text, size_t cut, uint64_t room, const char *expected) {
    const size_t length = strlen(text), ends[] = {cut < length ? cut : length, length};
    char joined[200] = "";
    size_t used = 0;
    jfs_values *values;
    uint64_t begin = 0, from = 0;
    CHECK_EQ(jfs_values_new(&values), JFS_OK);
    for (int piece = 0; piece < 2; piece++) {
        uint8_t *source = exactly(text + from, ends[piece] - from);
        uint64_t at = 0, count;
        jfs_status status;
        const uint64_t before = from - begin, base = begin;
        do {
            jfs_stretch found[8];
            status = jfs_values_split(values, source, ends[piece] - from, before, &at, found, room, &count, &begin);
            CHECK(status == JFS_OK || status == JFS_FULL);
            for (uint64_t i = 0; i < count; i++) {
                const size_t bytes = found[i].end - found[i].begin;
                memcpy(joined + used, text + base + found[i].begin, bytes);
                used += bytes;
                joined[used++] = '|';
            }
        } while (status == JFS_FULL);
        begin += base;
        from = ends[piece];
        free(source);
    }
    if (!jfs_values_may_end(values)) strcpy(joined + used, "open");
    CHECK(strcmp(joined, expected) == 0);
    jfs_values_free(values);
}

static void values(void) {
    static const char text[] = " {\"a\":[1,{}]} \"b\\\"\"12 -3.5e1\ttrue[]null 0\n";
    for (size_t cut = 0; cut <= sizeof text; cut++)
        for (uint64_t room = 1; room < 5; room++)
            check_values(text, cut, room, "{\"a\":[1,{}]}|\"b\\\"\"|12|-3.5e1|true|[]|null|0|");
    check_values("[1] {\"a\"", 5, 8, "[1]|open");
    check_values("7", 1, 8, "");
    check_values("7.", 1, 8, "open");
}

static void mistakes(void) {
    static const struct {
        const char *text;
        uint64_t at;
    } cases[] = {{"]", 0}, {"[1,]", 3}, {"{1}", 1}, {"nul1", 3}, {"01", 1}, {"[1}", 2}, {",", 0}, {"1,", 1}, {"-x", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t *source = exactly(cases[i].text, strlen(cases[i].text));
        jfs_values *before, *values;
        jfs_stretch found[4];
        uint64_t at = 0, count, begin;
        CHECK_EQ(jfs_values_new(&before), JFS_OK);
        CHECK_EQ(jfs_values_new(&values), JFS_OK);
        CHECK_EQ(jfs_values_split(values, source, strlen(cases[i].text), 0, &at, found, 4, &count, &begin),
                 JFS_MALFORMED);
        CHECK_EQ(at, cases[i].at);
        jfs_values_assign(values, before);
        CHECK(jfs_values_may_end(values));
        jfs_values_free(before);
        jfs_values_free(values);
        free(source);
    }
}

static void too_deep(void) {
    enum { DEEPEST = 511 };
    for (uint64_t levels = DEEPEST; levels <= DEEPEST + 1; levels++) {
        uint8_t opened[DEEPEST + 1];
        memset(opened, '[', sizeof opened);
        jfs_values *values;
        jfs_stretch found[1];
        uint64_t at = 0, count, begin;
        CHECK_EQ(jfs_values_new(&values), JFS_OK);
        CHECK_EQ(jfs_values_split(values, opened, levels, 0, &at, found, 1, &count, &begin),
                 levels == DEEPEST ? JFS_OK : JFS_MALFORMED);
        CHECK_EQ(jfs_values_too_deep(values), levels > DEEPEST);
        jfs_values_free(values);
    }
}

int main(void) {
    RUN(too_deep);
    RUN(bodies);
    RUN(lines);
    RUN(values);
    RUN(mistakes);
    return 0;
}
