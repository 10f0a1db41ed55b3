/* Publishing lines: the end of the journal is lent to the front while Python waits for requests, and only then. Python's
 * own thread stages the lines of all writes that wait to be read, makes them durable at once, and answers them, before
 * it goes back to Python.
 */
#ifndef JFS_FRONT_PUBLISH_H
#define JFS_FRONT_PUBLISH_H

#include <stdint.h>

/* The engine's own, of another library: `tail` is a jfs_tail, `way` a jfs_tail_way; 0 where all went well. Where
 * `stage` returns none of these, nothing can be published any more, and `flush` says so. */
typedef struct {
    int (*stage)(void *tail, void *way, const uint8_t *lines, uint64_t length);
    int32_t (*flush)(void *tail);
    int full;        /* what `stage` returns where a flush may make room, */
    int unfit;       /* and where it is left to Python */
    void *tail;      /* NULL: nothing is lent */
    struct jfs_front_file *touched; /* that something was published by, or failed to be, since Python looked last */
    int tells;       /* somebody waits to hear of what is published: go back to Python right behind it */
} jfs_front_lent;

/* A file that lines are written to, from here to its `jfs_front_unpublishes`. */
typedef struct jfs_front_file {
    struct jfs_front_file *next;
    struct jfs_front_file *touched;
    uint64_t handle;
    void *way;       /* NULL: Python takes what is written */
    uint64_t bytes;  /* how long it is */
    uint64_t taken;  /* bytes that were published since Python looked last, */
    uint64_t lines;
    int32_t appends; /* wherever it is written, it is at its end */
    int32_t failed;  /* a write was answered with EIO */
} jfs_front_file;

jfs_front_lent *jfs_front_lent_of(void);
void jfs_front_publishes(jfs_front_file *file);
void jfs_front_unpublishes(jfs_front_file *file);

#endif
