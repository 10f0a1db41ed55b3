/* One message, taken apart: views into its bytes, everything checked, so that rendering cannot fail. */
#ifndef JFS_MESSAGE_H
#define JFS_MESSAGE_H

#include "inflate.h"
#include "jfs_line.h"
#include "reader.h"

enum { JFS_CORE = 0, JFS_AMQP = 1 };

enum {
    JFS_TYPE_DEFAULT = 0,
    JFS_TYPE_OBJECT = 2,
    JFS_TYPE_TEXT = 3,
    JFS_TYPE_BYTES = 4,
    JFS_TYPE_MAP = 5,
    JFS_TYPE_STREAM = 6,
    JFS_TYPE_EMBEDDED = 7,
    JFS_TYPE_LARGE_EMBEDDED = 8,
};

typedef enum {
    JFS_BODY_NONE = 0, /* AMQP without body section, or nothing known of a body */
    JFS_BODY_NULL,     /* null text */
    JFS_BODY_TEXT,     /* UTF-16LE */
    JFS_BODY_RAW,
    JFS_BODY_OBJECT, /* raw as well, but known to be a serialized object */
    JFS_BODY_MAP,    /* TypedProperties entries */
    JFS_BODY_STREAM,
    JFS_BODY_DATA, /* AMQP data sections, one after the other */
    JFS_BODY_VALUE,
    JFS_BODY_SEQUENCE,
} jfs_body_kind;

/* Entries of a TypedProperties map: `count` times key, type code, value. */
typedef struct {
    jfs_view bytes;
    uint32_t count;
} jfs_entries;

/* AMQP sections by the low bits of their descriptor; body sections are kept apart. */
enum {
    JFS_SECTION_HEADER = 0,
    JFS_SECTION_DELIVERY_ANNOTATIONS = 1,
    JFS_SECTION_MESSAGE_ANNOTATIONS = 2,
    JFS_SECTION_PROPERTIES = 3,
    JFS_SECTION_APPLICATION_PROPERTIES = 4,
    JFS_SECTION_DATA = 5,
    JFS_SECTION_SEQUENCE = 6,
    JFS_SECTION_VALUE = 7,
    JFS_SECTION_FOOTER = 8,
    JFS_SECTIONS = 9,
};

enum {
    JFS_HAS_ADDRESS = 1, /* the address field was reached; its view may still be a null */
    JFS_HAS_ID = 2,
    JFS_HAS_HEADER = 4, /* type, durable, priority, times and properties are known */
    JFS_HAS_BODY = 8,
};

typedef struct {
    jfs_arena *arena; /* for a compressed body; NULL: needs_arena is set instead */
    jfs_view payload;
    jfs_view large;                  /* {NULL, 0} when there is none */
    jfs_view address;                /* UTF-16LE; at = NULL: null */
    jfs_view user_id;                /* core: 16 bytes or nothing */
    jfs_entries properties;          /* core */
    jfs_entries extra;               /* AMQP: what never goes over the wire */
    jfs_view group;                  /* core: UTF-16LE */
    jfs_view duplicate;              /* core: UTF-16LE, or raw when duplicate_raw */
    jfs_view body;                   /* what body_kind says; AMQP: from the first body section's first byte on */
    jfs_view sections[JFS_SECTIONS]; /* AMQP: the value of each section, constructor included */
    const char *damage;              /* NULL: decoded to the last byte */
    uint64_t data_bytes;             /* AMQP data: all sections together */
    uint32_t body_sections;
    uint32_t map_count; /* JFS_BODY_MAP */
    int64_t id;
    int64_t expiration_ms;
    int64_t timestamp_ms;
    int64_t scheduled_ms;
    int64_t message_format;
    int64_t large_size; /* _AMQ_LARGE_SIZE, -1 when absent */
    uint8_t has;
    uint8_t protocol;
    uint8_t persister;
    uint8_t type;
    uint8_t body_kind; /* jfs_body_kind */
    uint8_t priority;
    uint8_t durable;
    uint8_t is_large;
    uint8_t compressed;
    uint8_t needs_arena;
    uint8_t duplicate_raw;
    uint8_t has_expiration;   /* AMQP: the record has it, whatever the sections say */
    uint8_t extra_is_address; /* AMQP: the extra properties are the address once more, and nothing else */
    uint8_t undecoded;        /* part of the payload or body is shown by no key */
    uint8_t irregular;        /* the keys of the envelope do not carry every bit of the payload */
    uint8_t misnamed;         /* it says another id than its record, or none */
} jfs_message;

/* Never fails: what cannot be decoded is told in `damage`. The message may point into the arena. */
void jfs_message_parse(const jfs_line *line, jfs_arena *arena, jfs_message *message);

/*
 * extent.c: the bytes of a payload, persister byte first, that has something behind it (in a page); UINT64_MAX when
 * it does not fit. Goes by sizes alone.
 */
uint64_t jfs_payload_extent(jfs_view from);

/* core.c: everything after the persister byte; header alone for large ones. */
void jfs_core_parse(jfs_message *message, jfs_reader *reader);
/* amqp_message.c: persisters 2, 3, 5 and 4, after the persister byte. */
void jfs_amqp_parse(jfs_message *message, jfs_reader *reader);
void jfs_amqp_large_parse(jfs_message *message, jfs_reader *reader);

/* Something cannot be decoded. The first reason stays. Returns 0, so that a parser can `return jfs_damaged(...)`. */
int jfs_damaged(jfs_message *message, const char *reason);
/* Everything that is there is decoded, but not all is there. */
void jfs_incomplete(jfs_message *message, const char *reason);

#endif
