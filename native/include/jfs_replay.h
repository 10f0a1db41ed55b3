/* The journals of ActiveMQ 5 taken apart for replaying: what each command is about, and where that lies. */
#ifndef JFS_REPLAY_H
#define JFS_REPLAY_H

#include <stdint.h>

#include "jfs_status.h"

/* Bytes of a file. */
typedef struct {
    uint32_t at;
    uint32_t bytes;
} jfs_replay_span;

/* One command. What it does not have has no bytes and lies at 0. */
typedef struct {
    uint32_t start;    /* KahaDB: of its record; AMQ: of the command */
    uint32_t command;
    jfs_replay_span content;  /* KahaDB: its fields; AMQ: the command from its type on */
    uint32_t usual;    /* what follows is known */
    jfs_replay_span transaction;  /* as it is encoded */
    jfs_replay_span destination;
    jfs_replay_span id;       /* KahaDB: the text; AMQ: the id of the producer, from its type on */
    jfs_replay_span extra;    /* KahaDB: of an add the message, of a remove the subscription; AMQ: name and client of one */
    uint32_t reserved;
    int64_t sequence;  /* AMQ: of the message among its producer's */
} jfs_replay_row;

/*
 * Commands of a file from *at on, at most `capacity`. Ends where no regular record begins: that place is the
 * caller's, and *at says it.
 */
jfs_status jfs_replay_kahadb(const uint8_t *bytes, uint64_t size_bytes, uint64_t *at, jfs_replay_row *rows,
                             uint32_t capacity, uint32_t *count);
jfs_status jfs_replay_amq(const uint8_t *bytes, uint64_t size_bytes, uint64_t *at, jfs_replay_row *rows,
                          uint32_t capacity, uint32_t *count);

#endif
