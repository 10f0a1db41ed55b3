/* The renderer's parts: windows of the sink, base64, texts, the JSON check, and decoding at the ends of buffers. */
#include "amqp.h"
#include "check.h"
#include "classify.h"
#include "envelope.h"
#include "jfs_lines.h"
#include "jfs_page.h"
#include "properties.h"
#include "text.h"

static uint64_t chance_state = 88172645463325252u;

static uint64_t chance(uint64_t below) {
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return chance_state % below;
}

static jfs_sink window(uint8_t *out, uint64_t from, uint64_t to) { return (jfs_sink){out, 0, from, to, NULL}; }

typedef void (*writer)(jfs_sink *sink, const void *what);

/* Renders everything, then many windows, each into memory of exactly its size. */
static void check_windows(writer write, const void *what, uint64_t total) {
    uint8_t *whole = malloc(total + 1);
    jfs_sink all = window(whole, 0, total), measured;
    jfs_sink_measure(&measured);
    write(&measured, what);
    CHECK_EQ(measured.pos, total);
    write(&all, what);
    CHECK_EQ(all.pos, total);
    for (int i = 0; i < 300 && total > 0; i++) {
        const uint64_t from = chance(total), length = 1 + chance(total - from < 100 ? total - from : 100);
        uint8_t *part = malloc(length);
        jfs_sink sink = window(part, from, from + length);
        write(&sink, what);
        CHECK(sink.pos >= from + length);
        CHECK(memcmp(part, whole + from, length) == 0);
        free(part);
    }
    free(whole);
}

static void write_pieces(jfs_sink *sink, const void *what) {
    (void)what;
    JFS_PUT(sink, "{\"a\":");
    jfs_put_signed(sink, INT64_MIN);
    jfs_put_byte(sink, ',');
    jfs_put_unsigned(sink, UINT64_MAX);
    jfs_put_bool(sink, 1);
    jfs_put_uuid(sink, (const uint8_t *)"0123456789abcdef");
    jfs_put_hex(sink, (const uint8_t *)"\x00\xff\x7f", 3);
    jfs_put_double(sink, 0x400921fb54442d18u);
}

static void test_sink_stores_only_its_window(void) {
    static const char wanted[] = "{\"a\":-9223372036854775808,18446744073709551615true"
                                 "30313233-3435-3637-3839-61626364656600ff7f3.141592653589793";
    uint8_t out[sizeof wanted];
    jfs_sink sink = window(out, 0, sizeof wanted - 1);
    write_pieces(&sink, NULL);
    CHECK_EQ(sink.pos, sizeof wanted - 1);
    CHECK(memcmp(out, wanted, sizeof wanted - 1) == 0);
    check_windows(write_pieces, NULL, sizeof wanted - 1);
}

static void write_base64(jfs_sink *sink, const void *what) { jfs_put_base64(sink, *(const jfs_view *)what); }

/* Every length around the vector width, in memory that ends where the source does. */
static void test_base64_of_every_length(void) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (uint64_t length = 0; length < 120; length++) {
        uint8_t *source = malloc(length + 1), *out = malloc(jfs_base64_bytes(length) + 1);
        for (uint64_t i = 0; i < length; i++) source[i] = (uint8_t)chance(256);
        uint8_t *exact = malloc(length ? length : 1);
        memcpy(exact, source, length);
        const jfs_view view = {exact, length};
        jfs_sink sink = window(out, 0, jfs_base64_bytes(length));
        jfs_put_base64(&sink, view);
        CHECK_EQ(sink.pos, jfs_base64_bytes(length));
        for (uint64_t bit = 0; bit < length * 8; bit += 6) {
            uint32_t value = (uint32_t)source[bit / 8] << 8 | (bit / 8 + 1 < length ? source[bit / 8 + 1] : 0);
            CHECK(out[bit / 6] == (uint8_t)alphabet[(value >> (10 - bit % 8)) & 63]);
        }
        for (uint64_t i = (length * 8 + 5) / 6; i < sink.pos; i++) CHECK(out[i] == '=');
        check_windows(write_base64, &view, jfs_base64_bytes(length));
        free(exact);
        free(source);
        free(out);
    }
}

typedef struct {
    jfs_view view;
    jfs_text how;
} text_case;

static void write_text(jfs_sink *sink, const void *what) {
    const text_case *text = what;
    jfs_put_text(sink, text->view, text->how);
}

/* Units of all classes at all positions of a vector; counting and converting must agree on each. */
static void test_texts_measure_as_they_render(void) {
    static const uint16_t classes[] = {'a',   '"',    '\\',   '\n',   1,      0x7f,   0x80, 0x7ff,
                                       0x800, 0xffff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 11,   0x20};
    for (int round = 0; round < 3000; round++) {
        const uint64_t units = chance(70);
        uint8_t *source = malloc(2 * units + 1);
        const uint64_t plain = chance(4);
        for (uint64_t i = 0; i < units; i++) {
            const uint16_t unit = chance(8) < 2 * plain ? 'x' : classes[chance(sizeof classes / sizeof classes[0])];
            source[2 * i] = (uint8_t)unit;
            source[2 * i + 1] = (uint8_t)(unit >> 8);
        }
        uint8_t *exact = malloc(units ? 2 * units : 1);
        memcpy(exact, source, 2 * units);
        for (int how = JFS_UTF16LE_JSON; how <= JFS_UTF8_JSON; how++) {
            const text_case text = {{exact, 2 * units}, (jfs_text)how};
            check_windows(write_text, &text, jfs_text_bytes(text.view, text.how));
        }
        free(exact);
        free(source);
    }
}

static int is_json(const char *text) {
    jfs_json one, two;
    const size_t length = strlen(text);
    jfs_json_begin(&one);
    const int whole = jfs_json_feed(&one, (const uint8_t *)text, length) && jfs_json_whole(&one);
    jfs_json_begin(&two);
    int pieces = 1;
    for (size_t i = 0; i < length && pieces; i++) pieces = jfs_json_feed(&two, (const uint8_t *)text + i, 1);
    CHECK((pieces && jfs_json_whole(&two)) == whole);
    return whole;
}

static void test_json_check(void) {
    static const char *const good[] = {"{}",
                                       "[]",
                                       " [ ] ",
                                       "[0]",
                                       "[-0.5e+10,1E2]",
                                       "{\"a\":{\"b\":[null,true,false]}}",
                                       "[\"\\u00e9\\n\\/\"]",
                                       "\n{\"a\" : 1 , \"b\":\"\"}\n",
                                       "[\"a long string of plain text, \\\" quoted\"]"};
    static const char *const bad[] = {
        "",         "1",     "\"a\"",     "null",    "{",        "[",      "]",         "[]]",
        "[] []",    "[1,]",  "{,}",       "{\"a\"}", "{\"a\":}", "{a:1}",  "[01]",      "[1.]",
        "[.5]",     "[1e]",  "[+1]",      "[-]",     "[tru]",    "[True]", "[\"\\x\"]", "[\"\\u12g4\"]",
        "[\"\t\"]", "[1 2]", "{\"a\":1]", "[1}",     "['a']",    "[NaN]",  "{1:2}"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) CHECK(is_json(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) CHECK(!is_json(bad[i]));
}

/* Everything cut at every place, in memory that ends there: nothing may be read behind it. */
static void check_cuts(const uint8_t *payload, size_t length, uint8_t source) {
    for (size_t cut = 0; cut <= length; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1);
        memcpy(exact, payload, cut);
        const jfs_line line = {.payload = exact, .payload_bytes = (uint32_t)cut, .source = source};
        jfs_measure measure;
        uint64_t starts[2], written;
        CHECK(jfs_line_measure(&line, &measure) == JFS_OK);
        CHECK((cut == length) == ((measure.flags & JFS_MESSAGE_DAMAGED) == 0));
        CHECK(jfs_lines_starts(&line, 1, 0, starts) == JFS_OK);
        uint8_t *out = malloc(starts[1]);
        const jfs_lines lines = {&line, starts, NULL, 0, 1};
        CHECK(jfs_lines_read(&lines, 0, out, starts[1], &written, NULL) == JFS_OK);
        CHECK_EQ(written, starts[1]);
        CHECK_EQ(written, measure.tail_bytes + 2);
        free(out);
        free(exact);
    }
}

static void test_payloads_cut_anywhere(void) {
    static const uint8_t core[] = {1, 0,   0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 50, 0, 0, 0, 20, 1, 0, 0, 0,
                                   2, 'x', 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 3,  1, 0, 0, 0,  0, 0, 0, 0,
                                   0, 0,   0, 0, 0, 0, 0, 0, 1, 4, 1, 0, 0, 0,  1, 0, 0, 0,  0, 0};
    static const uint8_t amqp[] = {5,    0, 0,    0,    0,    0, 0, 0,    9, 0,    0,    0,    0,    0,
                                   0,    0, 0,    0,    0,    0, 0, 22,   0, 0x53, 0x70, 0xc0, 2,    1,
                                   0x41, 0, 0x53, 0x74, 0xc1, 5, 2, 0xa1, 1, 'k',  0x40, 0,    0x53, 0x77,
                                   0xa1, 0, 0,    0,    0,    0, 0, 0,    0, 0,    0,    0,    0,    0};
    check_cuts(core, sizeof core, JFS_SOURCE_PERSISTER);
    check_cuts(amqp, sizeof amqp, JFS_SOURCE_PERSISTER);
}

static void write_nothing(jfs_sink *sink, const void *what) {
    (void)what;
    const jfs_entries none = {{NULL, 0}, 0};
    jfs_put_properties(sink, none);
    jfs_put_property_types(sink, none);
    jfs_put_typed_map(sink, none);
    jfs_put_stream(sink, none.bytes);
    jfs_put_sequences(sink, none.bytes);
}

/* What is read of no bytes at all has no address that one could add to. */
static void test_nothing_is_rendered_as_that(void) {
    uint8_t out[100];
    jfs_sink sink = window(out, 0, sizeof out);
    write_nothing(&sink, NULL);
    out[sink.pos] = 0;
    CHECK(strcmp((char *)out, "{}{}{}[][]") == 0);
    check_windows(write_nothing, NULL, sink.pos);
}

int main(void) {
    RUN(test_sink_stores_only_its_window);
    RUN(test_base64_of_every_length);
    RUN(test_texts_measure_as_they_render);
    RUN(test_json_check);
    RUN(test_payloads_cut_anywhere);
    RUN(test_nothing_is_rendered_as_that);
    return 0;
}
