/* Judging: steps that nobody checked over messages that nobody checked. Whatever they are, judging ends, reads nothing
 * else, and says of a message by itself what it says of it among others.
 *
 * A byte: how many steps, of eight bytes each: code, target, a, b, count, jump, how far; then as fuzz_columns: a byte
 * with the source and two bytes with the length before each payload.
 */
#include "fuzz.h"
#include "jfs_select.h"

enum { STEPS_MAX = 32, STEP_BYTES = 8, LINES_MAX = 16, NAMES = 6, CONSTANTS = 8, CHARACTERS = 6, REGISTERS = 20 };

static uint32_t u16(const uint8_t *bytes) { return (uint32_t)bytes[0] << 8 | bytes[1]; }

static jfs_select_name name(const char *utf8, const char *utf16, uint32_t length, uint8_t kind) {
    return (jfs_select_name){(const uint8_t *)utf16, (const uint8_t *)utf8, 2 * length, length, kind, {0}};
}

static void make_names(jfs_select_name *names) {
    names[0] = name("n", "n\0", 1, JFS_N_PROPERTY);
    names[1] = name("", "", 0, JFS_N_ADDRESS);
    names[2] = name("x", "x\0", 1, JFS_N_USER_ID);
    names[3] = name("a", "a\0", 1, JFS_N_PROPERTY);
    names[4] = name("b", "b\0", 1, JFS_N_GROUP);
    names[5] = name("c", "c\0", 1, JFS_N_PRIORITY);
}

static void make_constants(jfs_select_value *constants) {
    memset(constants, 0, CONSTANTS * sizeof *constants);
    for (uint8_t i = 0; i < CONSTANTS; i++) {
        constants[i].type = (uint8_t)(JFS_V_NULL + i);
        constants[i].number = i % 2 ? INT64_MIN : 1;
        constants[i].real = i % 2 ? -0.0 : 1e300;
    }
    constants[2] = (jfs_select_value){.type = JFS_V_STRING,
                                      .utf16 = (const uint8_t *)"a\0b\0",
                                      .utf8 = (const uint8_t *)"ab",
                                      .utf16_bytes = 4,
                                      .utf8_bytes = 2};
    constants[3] = (jfs_select_value){.type = JFS_V_DOUBLE, .real = 1.5};
}

static uint32_t steps_of(const uint8_t *data, uint32_t count, jfs_select_step *steps) {
    for (uint32_t i = 0; i < count; i++, data += STEP_BYTES)
        steps[i] = (jfs_select_step){.code = data[0],
                                     .target = data[1],
                                     .a = data[2],
                                     .b = data[3],
                                     .count = data[4],
                                     .jump = data[5],
                                     .to = i + 1 + data[6]};
    return count;
}

static uint32_t lines_of(const uint8_t *at, size_t left, jfs_line *lines) {
    uint32_t count = 0;
    while (left >= 3 && count < LINES_MAX) {
        const size_t length = u16(at + 1) < left - 3 ? u16(at + 1) : left - 3;
        memset(&lines[count], 0, sizeof lines[count]);
        lines[count].source = at[0] & 3;
        lines[count].payload = at + 3;
        lines[count++].payload_bytes = (uint32_t)length;
        at += 3 + length;
        left -= 3 + length;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int32_t characters[CHARACTERS] = {'a', JFS_LIKE_ANY, 0x1f600, JFS_LIKE_ONE, JFS_LIKE_ANY, 'b'};
    jfs_select_name names[NAMES];
    jfs_select_value constants[CONSTANTS];
    jfs_select_step steps[STEPS_MAX];
    jfs_line lines[LINES_MAX];
    uint8_t together[LINES_MAX], alone;
    uint32_t judged, count;
    if (size < 1 || size < 1 + (size_t)(data[0] % STEPS_MAX) * STEP_BYTES) return 0;
    make_names(names);
    make_constants(constants);
    const uint32_t step_count = steps_of(data + 1, data[0] % STEPS_MAX, steps);
    const size_t head = 1 + (size_t)step_count * STEP_BYTES;
    const jfs_select_program program = {names, constants,  characters, steps,     NAMES, CONSTANTS,
                                        CHARACTERS, step_count, REGISTERS, NAMES + CONSTANTS};
    count = lines_of(data + head, size - head, lines);
    const jfs_status status = jfs_select_judge(&program, lines, count, 0, NULL, together, &judged);
    FUZZ_CHECK(status == JFS_OK || (status == JFS_RANGE && judged == 0));
    if (status != JFS_OK) return 0;
    FUZZ_CHECK(judged == count);
    for (uint32_t i = 0; i < count; i++) {
        FUZZ_CHECK(together[i] <= JFS_VERDICT_ASK);
        FUZZ_CHECK(jfs_select_judge(&program, lines + i, 1, 0, NULL, &alone, &judged) == JFS_OK && judged == 1);
        FUZZ_CHECK(alone == together[i]);
    }
    return 0;
}
