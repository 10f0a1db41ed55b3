/* Judging messages: the steps of a selector over the registers of one message after the other. */
#define _POSIX_C_SOURCE 200809L

#include "select.h"

#include <math.h>
#include <stdlib.h>

#include "jfs_guard.h"
#include "now.h"

/* What a step comes to. ASK: somebody else has to judge. FAILS: the broker throws, and the message is not accepted. */
typedef enum { KNOWN, ASK, FAILS } outcome;

static int is_integer(uint8_t type) { return type >= JFS_V_BYTE && type <= JFS_V_LONG; }

static int is_real(uint8_t type) { return type >= JFS_V_FLOAT; }

static int is_number(uint8_t type) { return type >= JFS_V_BYTE; }

/* A condition has one of these; a flag each, as in jfs_select_step.jump. */
typedef enum { IS_TRUE = JFS_J_TRUE, IS_FALSE = JFS_J_FALSE, IS_UNKNOWN = JFS_J_UNKNOWN } truth;

static truth truth_of(int value) { return value ? IS_TRUE : IS_FALSE; }

/* Of a register: whether it is TRUE, and unknown where it has nothing. */
static truth truth_in(const jfs_select_value *value) {
    if (value->type == JFS_V_NULL) return IS_UNKNOWN;
    return truth_of(value->type == JFS_V_BOOLEAN && value->number != 0);
}

static const jfs_select_value nothing = {.type = JFS_V_NULL};

/* -1, 0 or 1 in the order in which -0.0 < 0.0 and NaN is above all. */
static int compare_reals(double left, double right) {
    if (left < right) return -1;
    if (left > right) return 1;
    const int left_rank = isnan(left) ? 2 : signbit(left) ? -1 : 1;
    const int right_rank = isnan(right) ? 2 : signbit(right) ? -1 : 1;
    return (left_rank > right_rank) - (left_rank < right_rank);
}

static int compare_numbers(int64_t left, int64_t right) { return (left > right) - (left < right); }

static double as_real(const jfs_select_value *value) {
    return is_real(value->type) ? value->real : (double)value->number;
}

/* An integer beside a float is rounded to one, and only once. */
static double as_single(const jfs_select_value *value) {
    return is_real(value->type) ? value->real : (double)(float)value->number;
}

enum { INCOMPARABLE = 2 };

/* -1, 0 or 1, or INCOMPARABLE: by the broker's rules of promotion, which go by the left side's type. */
static int compare(const jfs_select_value *left, const jfs_select_value *right) {
    const uint8_t a = left->type, b = right->type;
    if (is_integer(a) && is_integer(b))
        return a <= b || (a == JFS_V_LONG && b == JFS_V_INT) ? compare_numbers(left->number, right->number)
                                                             : INCOMPARABLE;
    if (is_integer(a) && is_real(b)) {
        if (b == JFS_V_FLOAT) return compare_reals(as_single(left), right->real);
        return compare_reals(as_real(left), right->real);
    }
    if (is_real(a) && (b == JFS_V_INT || b == JFS_V_LONG)) {
        if (a == JFS_V_FLOAT) return compare_reals(left->real, as_single(right));
        return compare_reals(left->real, as_real(right));
    }
    if (is_real(a) && is_real(b)) return compare_reals(left->real, right->real);
    if (a == b && (a == JFS_V_CHAR || a == JFS_V_BOOLEAN)) return compare_numbers(left->number, right->number);
    return INCOMPARABLE;
}

/* 1, 0, or -1: in two forms of text that are not brought together here. */
static int same_text(const jfs_select_value *a, const jfs_select_value *b) {
    if (a->utf16 != NULL && b->utf16 != NULL)
        return a->utf16_bytes == b->utf16_bytes && memcmp(a->utf16, b->utf16, a->utf16_bytes) == 0;
    if (a->utf8 != NULL && b->utf8 != NULL)
        return a->utf8_bytes == b->utf8_bytes && memcmp(a->utf8, b->utf8, a->utf8_bytes) == 0;
    return -1;
}

/* Two unknowns are equal. `a` is known to be none to ask for. */
static outcome equal(const jfs_select_value *a, const jfs_select_value *b, truth *out) {
    if (a->type == JFS_V_NULL) {
        if (b->type == JFS_V_ASK) return ASK;
        *out = b->type == JFS_V_NULL ? IS_TRUE : IS_UNKNOWN;
        return KNOWN;
    }
    if (b->type == JFS_V_ASK) return ASK;
    if (b->type == JFS_V_NULL) {
        *out = IS_FALSE;
        return KNOWN;
    }
    if (a->type == JFS_V_OPAQUE || b->type == JFS_V_OPAQUE) return ASK;
    if (a->type == JFS_V_BYTES && b->type == JFS_V_BYTES) return ASK;
    if (a->type == JFS_V_STRING && b->type == JFS_V_STRING) {
        const int same = same_text(a, b);
        *out = truth_of(same == 1);
        return same < 0 ? ASK : KNOWN;
    }
    *out = truth_of(compare(a, b) == 0);
    return KNOWN;
}

static outcome ordered(uint8_t code, const jfs_select_value *a, const jfs_select_value *b, truth *out) {
    *out = IS_UNKNOWN;
    if (a->type <= JFS_V_OPAQUE) return ASK;
    if (a->type == JFS_V_NULL) return KNOWN;
    if (a->type == JFS_V_BYTES) return FAILS;
    if (b->type <= JFS_V_OPAQUE) return ASK;
    if (b->type == JFS_V_NULL) return KNOWN;
    if (b->type == JFS_V_BYTES) return FAILS;
    if (a->type == JFS_V_STRING && b->type == JFS_V_STRING) return ASK;
    const int answer = compare(a, b);
    *out = truth_of(answer != INCOMPARABLE && (code == JFS_S_LESS         ? answer < 0
                                               : code == JFS_S_LESS_EQUAL ? answer <= 0
                                               : code == JFS_S_GREATER    ? answer > 0
                                                                          : answer >= 0));
    return KNOWN;
}

static int32_t low32(uint64_t bits) { return (int32_t)(uint32_t)bits; }

static jfs_select_value whole(uint8_t code, const jfs_select_value *a, const jfs_select_value *b) {
    const uint64_t x = (uint64_t)a->number, y = (uint64_t)b->number;
    const uint64_t bits = code == JFS_S_ADD ? x + y : code == JFS_S_SUBTRACT ? x - y : x * y;
    if (a->type == JFS_V_LONG || b->type == JFS_V_LONG)
        return (jfs_select_value){.type = JFS_V_LONG, .number = (int64_t)bits};
    return (jfs_select_value){.type = JFS_V_INT, .number = low32(bits)};
}

static double divided(double a, double b) {
    if (b != 0.0) return a / b;
    if (a == 0.0 || isnan(a)) return NAN;
    return copysign(INFINITY, a) * copysign(1.0, b);
}

static double remainder_of(double a, double b) {
    return b == 0.0 || isinf(a) || isnan(a) || isnan(b) ? NAN : fmod(a, b);
}

static outcome calculate(uint8_t code, const jfs_select_value *a, const jfs_select_value *b, jfs_select_value *out) {
    *out = nothing;
    if (a->type == JFS_V_ASK) return ASK;
    if (a->type == JFS_V_NULL) return KNOWN;
    if (b->type == JFS_V_ASK) return ASK;
    if (b->type == JFS_V_NULL) return KNOWN;
    if (code == JFS_S_ADD && a->type == JFS_V_STRING) return ASK;
    if (!is_number(a->type) || !is_number(b->type)) return FAILS;
    const double x = as_real(a), y = as_real(b);
    if (code == JFS_S_DIVIDE || code == JFS_S_REMAINDER) {
        *out = (jfs_select_value){.type = JFS_V_DOUBLE,
                                  .real = code == JFS_S_DIVIDE ? divided(x, y) : remainder_of(x, y)};
    } else if (is_real(a->type) || is_real(b->type)) {
        *out = (jfs_select_value){.type = JFS_V_DOUBLE,
                                  .real = code == JFS_S_ADD        ? x + y
                                          : code == JFS_S_SUBTRACT ? x - y
                                                                   : x * y};
    } else {
        *out = whole(code, a, b);
    }
    return KNOWN;
}

static outcome negate(const jfs_select_value *a, jfs_select_value *out) {
    const uint64_t bits = 0 - (uint64_t)a->number;
    *out = nothing;
    switch (a->type) {
    case JFS_V_ASK: return ASK;
    case JFS_V_INT: *out = (jfs_select_value){.type = JFS_V_INT, .number = low32(bits)}; return KNOWN;
    case JFS_V_LONG: *out = (jfs_select_value){.type = JFS_V_LONG, .number = (int64_t)bits}; return KNOWN;
    case JFS_V_FLOAT:
    case JFS_V_DOUBLE: *out = (jfs_select_value){.type = a->type, .real = -a->real}; return KNOWN;
    case JFS_V_BYTE:
    case JFS_V_SHORT: return FAILS;
    default: return KNOWN;
    }
}

typedef struct {
    const jfs_select_program *program;
    const jfs_line *lines;
    uint32_t count;
    uint64_t budget_ns;
    uint8_t *verdicts;
    uint32_t *judged;
    jfs_select_value *registers;
    jfs_select_work work;
} judge_job;

static truth is_member(const judge_job *job, const jfs_select_step *step, const jfs_select_value *a) {
    if (a->type != JFS_V_STRING) return IS_UNKNOWN;
    for (uint32_t i = 0; i < step->count; i++)
        if (same_text(a, &job->registers[step->b + i]) == 1) return IS_TRUE;
    return IS_FALSE;
}

static truth is_like(judge_job *job, const jfs_select_step *step, const jfs_select_value *a) {
    const int32_t *const pattern = job->program->characters + step->b;
    if (a->type == JFS_V_NULL) return IS_UNKNOWN;
    return truth_of(a->type == JFS_V_STRING && jfs_select_like(a, pattern, step->count, &job->work));
}

/* FALSE decides AND, TRUE decides OR. */
static truth joined(truth decisive, truth a, truth b) {
    if (a == decisive || b == decisive) return decisive;
    return a == IS_UNKNOWN || b == IS_UNKNOWN ? IS_UNKNOWN : decisive ^ (IS_TRUE | IS_FALSE);
}

/* Steps that come to a condition. */
static outcome run_test(judge_job *job, const jfs_select_step *step, truth *out) {
    const jfs_select_value *const a = &job->registers[step->a];
    if (a->type == JFS_V_ASK) return ASK;
    switch (step->code) {
    case JFS_S_TRUTH: *out = truth_in(a); return KNOWN;
    case JFS_S_NOT: *out = truth_in(a) == IS_UNKNOWN ? IS_UNKNOWN : truth_of(truth_in(a) == IS_FALSE); return KNOWN;
    case JFS_S_AND: *out = joined(IS_FALSE, truth_in(a), truth_in(&job->registers[step->b])); return KNOWN;
    case JFS_S_OR: *out = joined(IS_TRUE, truth_in(a), truth_in(&job->registers[step->b])); return KNOWN;
    case JFS_S_EQUAL: return equal(a, &job->registers[step->b], out);
    case JFS_S_IS_NULL: *out = truth_of(a->type == JFS_V_NULL); return KNOWN;
    case JFS_S_LIKE: *out = is_like(job, step, a); return KNOWN;
    case JFS_S_IN: *out = is_member(job, step, a); return KNOWN;
    default: return ordered(step->code, a, &job->registers[step->b], out);
    }
}

/* Steps that come to a value. */
static outcome run_value(judge_job *job, const jfs_select_step *step, truth *out) {
    const jfs_select_value *const a = &job->registers[step->a], *const b = &job->registers[step->b];
    jfs_select_value made = *a;
    const outcome result = step->code == JFS_S_MOVE     ? KNOWN
                           : step->code == JFS_S_NEGATE ? negate(a, &made)
                                                        : calculate(step->code, a, b, &made);
    job->registers[step->target] = made;
    *out = truth_in(&made);
    return result;
}

static outcome run_step(judge_job *job, const jfs_select_step *step, truth *out) {
    if (step->code == JFS_S_MOVE || step->code >= JFS_S_ADD) return run_value(job, step, out);
    const outcome result = run_test(job, step, out);
    jfs_select_value *const target = &job->registers[step->target];
    if (result == KNOWN) {
        target->type = *out == IS_UNKNOWN ? JFS_V_NULL : JFS_V_BOOLEAN;
        target->number = *out == IS_TRUE;
    }
    return result;
}

static uint8_t judge(judge_job *job, const jfs_line *line) {
    const jfs_select_program *const program = job->program;
    uint8_t user_id[JFS_USER_ID_BYTES];
    jfs_message message;
    jfs_message_parse(line, NULL, &message);
    if (message.undecoded || !(message.has & JFS_HAS_HEADER)) return JFS_VERDICT_ASK;
    if (message.protocol == JFS_AMQP && message.is_large) return JFS_VERDICT_ASK;
    jfs_select_load(program, &message, user_id, job->registers);
    const uint32_t first = program->name_count + program->constant_count;
    /* JFS_V_ASK: what no step has written is nothing to go by. */
    memset(job->registers + first, 0, (program->register_count - first) * sizeof *job->registers);
    for (uint32_t at = 0; at < program->step_count;) {
        const jfs_select_step *const step = &program->steps[at];
        truth out;
        const outcome result = run_step(job, step, &out);
        if (result != KNOWN) return result == ASK ? JFS_VERDICT_ASK : JFS_VERDICT_NO;
        at = step->jump & out ? step->to : at + 1;
    }
    return truth_in(&job->registers[program->result]) == IS_TRUE ? JFS_VERDICT_YES : JFS_VERDICT_NO;
}

enum { TIMED_EVERY = 32 };

static jfs_status judge_body(void *context) {
    judge_job *const job = context;
    const uint64_t end_ns = job->budget_ns == 0 ? UINT64_MAX : jfs_now_ns() + job->budget_ns;
    uint32_t i = *job->judged;
    for (; i < job->count; i++) {
        if (i % TIMED_EVERY == TIMED_EVERY - 1 && end_ns != UINT64_MAX && jfs_now_ns() >= end_ns) break;
        if (job->work.stop != NULL && *job->work.stop) break;
        job->verdicts[i] = judge(job, &job->lines[i]);
        if (job->work.stopped) break;
        *job->judged = i + 1;
    }
    return JFS_OK;
}

static int within(uint32_t from, uint32_t count, uint32_t end) { return from <= end && count <= end - from; }

static int is_sound(const jfs_select_program *program) {
    const uint32_t constants_end = program->name_count + program->constant_count;
    if (program->name_count > 256 || constants_end > program->register_count) return 0;
    if (program->result >= program->register_count) return 0;
    for (uint32_t i = 0; i < program->name_count; i++)
        if (program->names[i].kind == JFS_N_USER_ID && i + 1 == program->name_count) return 0;
    for (uint32_t at = 0; at < program->step_count; at++) {
        const jfs_select_step *const step = &program->steps[at];
        if (step->code >= JFS_S_CODES || step->a >= program->register_count) return 0;
        if (step->target < constants_end || step->target >= program->register_count) return 0;
        if (step->to <= at || step->to > program->step_count) return 0;
        if (step->code == JFS_S_LIKE ? !within(step->b, step->count, program->character_count)
            : step->code == JFS_S_IN ? !within(step->b, step->count, constants_end)
                                     : step->b >= program->register_count)
            return 0;
    }
    return 1;
}

jfs_status jfs_select_judge(const jfs_select_program *program, const jfs_line *lines, uint32_t count,
                            uint64_t budget_ns, const volatile int32_t *stop, uint8_t *verdicts, uint32_t *judged) {
    judge_job job = {program, lines, count, budget_ns, verdicts, judged, NULL, {0, stop, 0}};
    *judged = 0;
    if (!is_sound(program)) return JFS_RANGE;
    job.registers = calloc(program->register_count + 1, sizeof *job.registers);
    if (job.registers == NULL) return JFS_NO_MEMORY;
    if (program->constant_count > 0)
        memcpy(job.registers + program->name_count, program->constants,
               program->constant_count * sizeof *job.registers);
    const jfs_status status = jfs_guarded(judge_body, &job);
    free(job.registers);
    return status;
}
