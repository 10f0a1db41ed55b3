/* Messages of ActiveMQ 5 taken apart. */
#ifndef JFS_OPENWIRE_INTERNAL_H
#define JFS_OPENWIRE_INTERNAL_H

#include "reader.h"

enum { OPENWIRE_MESSAGE = 23, OPENWIRE_BYTES, OPENWIRE_MAP, OPENWIRE_OBJECT, OPENWIRE_STREAM, OPENWIRE_TEXT };

enum { OPENWIRE_BROKERS_MAX = 16 };

/* A nullable piece: at = NULL is null. */
typedef struct {
    int present;
    uint8_t kind; /* of a destination */
    jfs_view text;
} openwire_text;

typedef struct {
    int present;
    openwire_text connection;
    int64_t value, session;
} openwire_producer;

typedef struct {
    uint32_t count;
    jfs_view names[OPENWIRE_BROKERS_MAX];
} openwire_brokers;

typedef struct {
    uint8_t kind; /* OPENWIRE_* */
    int32_t command_id;
    openwire_producer producer;
    openwire_text original;
    openwire_text foreign_id;
    openwire_producer id_producer;
    int64_t id_sequence;
    openwire_text group;
    int32_t group_sequence;
    openwire_text correlation_id;
    int persistent;
    int64_t expiration_ms;
    uint8_t priority;
    openwire_text reply_to;
    int64_t timestamp_ms;
    openwire_text jms_type;
    openwire_text content;
    openwire_text properties;
    int compressed;
    int32_t redeliveries;
    openwire_brokers broker_path;
    int64_t arrival_ms;
    openwire_text user;
    int droppable;
    openwire_brokers cluster;
    int64_t broker_in_ms;
} openwire_message;

/* Whether the command, from its type on, is a message of a usual kind. */
int jfs_openwire_parse(jfs_view command, openwire_message *message);

/* What replaying asks of a command: where it lies, as it is encoded. */
typedef struct {
    jfs_view transaction, destination;
    jfs_view producer; /* of the message's id, from its type on */
    jfs_view subscription; /* its name and its client */
    int64_t sequence;
} openwire_head;

/* Of a message, or an acknowledgement of a queue or a topic. */
int jfs_openwire_head(jfs_view command, openwire_head *head);

#endif
