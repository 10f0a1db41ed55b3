/* Judging messages by a selector that was compiled to steps over registers (journalfs/selector/compiler.py). */
#ifndef JFS_SELECT_H
#define JFS_SELECT_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_status.h"

/* Types of a register's value. Numbers stand in the order in which a narrower one may be compared with a wider one. */
enum {
    JFS_V_ASK = 0,    /* whoever knows the whole envelope has to say */
    JFS_V_OPAQUE = 1, /* something, of a type that is not known here */
    JFS_V_BYTES = 2,
    JFS_V_NULL = 3,
    JFS_V_BOOLEAN = 4,
    JFS_V_STRING = 5,
    JFS_V_CHAR = 6,
    JFS_V_BYTE = 7,
    JFS_V_SHORT = 8,
    JFS_V_INT = 9,
    JFS_V_LONG = 10,
    JFS_V_FLOAT = 11,
    JFS_V_DOUBLE = 12
};

/* A value. Text of a message has one of the two forms, a constant has both; the other one's pointer is NULL. */
typedef struct {
    const uint8_t *utf16; /* little endian */
    const uint8_t *utf8;
    uint64_t utf16_bytes;
    uint64_t utf8_bytes;
    int64_t number; /* integers, characters and booleans */
    double real;    /* floats and doubles */
    uint8_t type;   /* JFS_V_* */
    uint8_t reserved[7];
} jfs_select_value;

/* What a name stands for. */
enum {
    JFS_N_PROPERTY = 0,
    JFS_N_AMQP_FIELD = 1, /* a property of core messages; of AMQP ones something else, which is asked for */
    JFS_N_PRIORITY = 2,
    JFS_N_TIMESTAMP = 3,
    JFS_N_EXPIRATION = 4,
    JFS_N_DURABLE = 5, /* DURABLE or NON_DURABLE */
    JFS_N_MODE = 6,    /* PERSISTENT or NON_PERSISTENT */
    JFS_N_ADDRESS = 7, /* a property where the message has none; so the next two */
    JFS_N_GROUP = 8,
    JFS_N_USER_ID = 9 /* the next name is the property to look at first where the message has none */
};

typedef struct {
    const uint8_t *utf16;
    const uint8_t *utf8;
    uint32_t utf16_bytes;
    uint32_t utf8_bytes;
    uint8_t kind; /* JFS_N_* */
    uint8_t reserved[7];
} jfs_select_name;

enum {
    JFS_S_MOVE = 0,
    JFS_S_TRUTH = 1, /* whether it is TRUE */
    JFS_S_NOT = 2,
    JFS_S_AND = 3, /* of three values; so OR */
    JFS_S_OR = 4,
    JFS_S_EQUAL = 5,
    JFS_S_LESS = 6,
    JFS_S_LESS_EQUAL = 7,
    JFS_S_GREATER = 8,
    JFS_S_GREATER_EQUAL = 9,
    JFS_S_IS_NULL = 10,
    JFS_S_LIKE = 11, /* b: first of `count` characters of the pattern */
    JFS_S_IN = 12,   /* b: first of `count` constants */
    JFS_S_ADD = 13,
    JFS_S_SUBTRACT = 14,
    JFS_S_MULTIPLY = 15,
    JFS_S_DIVIDE = 16,
    JFS_S_REMAINDER = 17,
    JFS_S_NEGATE = 18,
    JFS_S_CODES = 19
};

/* After a step: jump where its outcome is one of these. */
enum { JFS_J_TRUE = 1, JFS_J_FALSE = 2, JFS_J_UNKNOWN = 4 };

/* target = a CODE b, all of them registers. */
typedef struct {
    uint32_t target;
    uint32_t a;
    uint32_t b;
    uint32_t count;
    uint32_t to; /* a step behind this one, or the end */
    uint8_t code;
    uint8_t jump; /* JFS_J_* */
    uint8_t reserved[2];
} jfs_select_step;

/* In a pattern, beside characters. */
enum { JFS_LIKE_ONE = -1, JFS_LIKE_ANY = -2 };

/* Registers: names first, then constants, then what steps write. The last step's outcome is in register `result`. */
typedef struct {
    const jfs_select_name *names;
    const jfs_select_value *constants;
    const int32_t *characters; /* of all patterns */
    const jfs_select_step *steps;
    uint32_t name_count;
    uint32_t constant_count;
    uint32_t character_count;
    uint32_t step_count;
    uint32_t register_count;
    uint32_t result;
} jfs_select_program;

enum { JFS_VERDICT_NO = 0, JFS_VERDICT_YES = 1, JFS_VERDICT_ASK = 2 };

/*
 * Judges messages in order until all are, `budget_ns` are over (0: no such limit) or *stop is not 0; *judged says how
 * many were. Large bodies need not be there. JFS_RANGE: the program names what it does not have.
 */
jfs_status jfs_select_judge(const jfs_select_program *program, const jfs_line *lines, uint32_t count,
                            uint64_t budget_ns, const volatile int32_t *stop, uint8_t *verdicts, uint32_t *judged);

#endif
