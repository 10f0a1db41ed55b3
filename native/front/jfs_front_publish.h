/* Publishing lines: the end of the journal is lent to the front from where Python begins to wait for requests to where it
 * runs again, and only then. The thread that reads stages the lines of all writes that wait to be read, makes them
 * durable at once, and answers them. While the end is lent, files are made, flushed and closed here, too.
 */
#ifndef JFS_FRONT_PUBLISH_H
#define JFS_FRONT_PUBLISH_H

#include <stdint.h>

/* The engine's own, of another library: `tail` is a jfs_tail, `way` a jfs_tail_way; 0 where all went well. Where
 * `stage` returns none of these, nothing can be published any more, and `flush` says so. Below 0: `defers` from here on. */
typedef struct {
    int (*stage)(void *tail, void *way, const uint8_t *lines, uint64_t length);
    int32_t (*flush)(void *tail);
    int full;        /* what `stage` returns where a flush may make room, */
    int unfit;       /* and where it is left to Python */
    void *tail;      /* NULL: nothing is lent */
    struct jfs_front_file *touched; /* that something was published by, or failed to be, since Python looked last, */
    struct jfs_front_file *closed;  /* and those of Python's that were closed */
    int tells;       /* somebody waits to hear of what is published: go back to Python right behind it */
    int held;        /* Python has the end of the journal: it runs */
    int news;        /* something was published, failed or closed since Python looked last */
    int wanted;      /* Python is to take over what was made here */
    uint32_t made;   /* open files that were */
    uint32_t user;   /* for whom one of those published last */
    int defers;      /* what is staged is flushed by Python, which then calls `jfs_front_settle` */
    uint64_t staged; /* so many writes were, ever, */
    uint64_t answered; /* and so many were answered */
    uint64_t enough; /* go back to Python once so many were */
} jfs_front_lent;

/* A file that lines are written to, from here to its `jfs_front_unpublishes`. */
typedef struct jfs_front_file {
    struct jfs_front_file *next;
    struct jfs_front_file *touched;
    struct jfs_front_file *closed;
    uint64_t handle;
    void *way;       /* NULL: Python takes what is written. Otherwise nothing is unfinished, nor under way there */
    uint64_t bytes;  /* how long it is */
    uint64_t taken;  /* bytes that were published since Python looked last, */
    uint64_t lines;
    int32_t appends; /* wherever it is written, it is at its end */
    int32_t failed;  /* a write was answered with EIO */
    int32_t is_made; /* it is the `file` of a jfs_front_made, and freed with it, */
    int32_t is_own;  /* of which Python does not know yet */
} jfs_front_file;

enum { JFS_FRONT_NAME_BYTES = 120 /* longer names are not kept */ };

/* A file that was made here. */
typedef struct {
    jfs_front_file file;
    uint64_t nodeid, parent, lookups;
    uint32_t uid, pid, flags;
    char name[JFS_FRONT_NAME_BYTES];
} jfs_front_made;

jfs_front_lent *jfs_front_lent_of(void);

/* Python runs, and has the end of the journal, until it waits again: nothing is published, made, flushed or closed any
 * more when this returns, and all that was is known. May be called with the interpreter's lock. */
void jfs_front_hold(void);

/* Answer the first writes that wait, where Python flushed them; with an errno, unless `error` is 0. */
void jfs_front_settle(uint32_t count, int error);

void jfs_front_publishes(jfs_front_file *file);
void jfs_front_unpublishes(jfs_front_file *file);

/* What is answered to the request at hand, a CREATE, may be answered to who asks the same again, with numbers of its own,
 * until something is revoked; what is written then goes `way`. */
void jfs_front_makes(void *way);

/* Make nothing more before Python is asked again. While Python has the end of the journal. */
void jfs_front_makes_no_more(void);

/* An open file that was made here, and is Python's from now on, with the lookups that the kernel has of it. NULL: there
 * are no more. While Python has the end of the journal. */
jfs_front_made *jfs_front_adopt(void);

#endif
