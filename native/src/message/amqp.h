/* AMQP 1.0 values. */
#ifndef JFS_AMQP_H
#define JFS_AMQP_H

#include "message.h"

/* Deeper nesting is not decoded: it keeps the C stack bounded, and no real message comes near. */
enum { JFS_AMQP_DEPTH_MAX = 64 };

typedef enum {
    JFS_A_NULL,
    JFS_A_BOOLEAN,
    JFS_A_UBYTE,
    JFS_A_USHORT,
    JFS_A_UINT,
    JFS_A_ULONG,
    JFS_A_BYTE,
    JFS_A_SHORT,
    JFS_A_INT,
    JFS_A_LONG,
    JFS_A_FLOAT,
    JFS_A_DOUBLE,
    JFS_A_DECIMAL32,
    JFS_A_DECIMAL64,
    JFS_A_DECIMAL128,
    JFS_A_CHAR,
    JFS_A_TIMESTAMP,
    JFS_A_UUID,
    JFS_A_BINARY,
    JFS_A_STRING,
    JFS_A_SYMBOL,
    JFS_A_LIST,
    JFS_A_MAP,
    JFS_A_ARRAY,
    JFS_A_DESCRIBED,
    JFS_A_UNKNOWN,
} jfs_amqp_type;

/* One value, shallow. */
typedef struct {
    jfs_amqp_type type;
    uint8_t code;     /* the constructor */
    jfs_view bytes;   /* fixed and variable ones: the value; list and map: the items; described: descriptor and value;
                         array: the elements behind their constructor */
    uint64_t number;  /* integers, booleans, timestamps, chars and floats: the value, sign-extended */
    uint32_t count;   /* list, map (keys and values), array */
    jfs_view element; /* array: the element constructor, empty for an empty array without one */
} jfs_amqp;

/* Reads one value with its constructor; reader->bad or type JFS_A_UNKNOWN when it is none. */
jfs_amqp jfs_take_amqp(jfs_reader *reader);
/* The same for an array's element, whose constructor stands elsewhere. */
jfs_amqp jfs_take_amqp_element(jfs_reader *reader, jfs_view constructor);
/* Moves past one value by its sizes alone, without looking inside; the stretch it takes. */
jfs_view jfs_skip_amqp(jfs_reader *reader);
const char *jfs_amqp_type_name(jfs_amqp_type type);

/* Enough for any array of empty lists or nulls that somebody might really send. */
enum { JFS_AMQP_WIDTHLESS_MAX = 65536 };
/* And for arrays of described values: the bytes of their descriptors, each time one is written out. */
enum { JFS_AMQP_REPEATED_MAX = 16 * 1024 * 1024 };

/* What checking allows over all values of one message together, so that a few bytes cannot become gigabytes of text.
 */
typedef struct {
    uint64_t widthless; /* array elements that take no byte each: how many more are allowed */
    uint64_t repeated;  /* descriptor bytes of array elements: how many more */
    const char *reason;
} jfs_amqp_budget;

/* Reads one whole value and checks everything inside. 0: no AMQP, and budget->reason says why. */
int jfs_check_amqp(jfs_reader *reader, jfs_amqp_budget *budget, int depth);

/* amqp_json.c: {"t":..,"v":..}; the value must have been checked. */
void jfs_put_amqp(jfs_sink *sink, const jfs_amqp *value);
/* Only what stands behind "v". */
void jfs_put_amqp_plain(jfs_sink *sink, const jfs_amqp *value);
/* A list's items without brackets, each typed. */
void jfs_put_amqp_items(jfs_sink *sink, const jfs_amqp *list);
/* A map's pairs as [[k,v],...], brackets included. */
void jfs_put_amqp_pairs(jfs_sink *sink, const jfs_amqp *map);
/* A message-id or correlation-id as text, quotes included. */
void jfs_put_amqp_text(jfs_sink *sink, const jfs_amqp *value);

/* amqp_message.c: the value of a section, and field `index` of a list (null where the list is shorter). */
jfs_amqp jfs_amqp_section(const jfs_message *message, int section);
jfs_amqp jfs_amqp_field(const jfs_amqp *list, uint32_t index);
/* The next data section's bytes, or the next sequence; 0 when none is left. */
int jfs_next_body_section(jfs_reader *reader, jfs_amqp *value);

#endif
