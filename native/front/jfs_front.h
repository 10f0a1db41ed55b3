/* The front: reads the requests of /dev/fuse ahead of libfuse, answers in C those whose answer is known, and hands
 * on all others. One mount a process. `docs/inside/architecture.md` shows the way of a request.
 *
 * Threads: Python's, which calls everything here unless said otherwise, and one of the front's own that reads while Python is away.
 */
#ifndef JFS_FRONT_H
#define JFS_FRONT_H

#include <stdint.h>

#include "jfs_front_publish.h"

enum {
    JFS_FRONT_TIME = 0,    /* the time is over */
    JFS_FRONT_REQUEST = 1, /* libfuse has something to read */
    JFS_FRONT_TRIO = 2     /* trio has something to do */
};

enum { JFS_FRONT_HUNG = 70 /* exit code: EX_SOFTWARE */ };

enum {
    JFS_KEEP_ANSWER = 1, /* the answer of the request at hand holds until something is revoked */
    JFS_KEEP_LACKS = 2,  /* the same, and the directory lacks every other plain name, too */
    JFS_KEEP_LASTS = 4   /* and it holds whatever is published in C; of names that are missing, of plain ones */
};

enum {
    JFS_REVOKE_MESSAGES = 1, /* but for what lasts through what is published */
    JFS_REVOKE_STEP = 2      /* from Python's thread, before it goes on with what is not the request at hand */
};

typedef struct {
    uint64_t getattr, lookup, missing, open, create, read, flush, release; /* answered in C */
    /* could have been, but: */
    uint64_t unknown;   /* nobody had asked before */
    uint64_t revoked;   /* something may have changed since */
    uint64_t releasing; /* a file that was written is being closed */
    uint64_t held;      /* Python was at work, which might have had to do with it */
    uint64_t unlent;    /* nothing is to be published in C at this time */
    uint64_t named;     /* a file of this name is open */
    uint64_t flags;     /* it is opened in a way that needs a decision */
    uint64_t crowded;   /* too many files that were made in C are open */
    uint64_t unready;   /* of the file, something is unfinished or under way in Python */
    uint64_t other;     /* requests that only Python answers */
    uint64_t by_spare;  /* read while Python was away */
    uint64_t revokes;
    uint64_t compared, differed; /* shadow mode: answers of C beside those of Python */
    uint64_t kept_bytes;
    uint64_t write;       /* answered in C, when it was durable */
    uint64_t unpublished; /* could have been, but: no room, too long, not whole lines, a limit, a slow disk */
    uint64_t flushes;     /* which those shared */
} jfs_front_counts;

typedef struct {
    uint32_t live;     /* something is kept, or may be by the next answer: a change has to revoke */
    uint32_t returned; /* so many handles wait to be closed: `jfs_front_returned` */
} jfs_front_state;

/* The next session that libfuse mounts in this process is taken over. */
void jfs_front_arm(void);

/* Why the session could not be taken over; NULL: it was. */
const char *jfs_front_problem(void);

/* Begin to read ahead. `hot`: answer what is known. `chaos`: revoke something before every so many requests; 0: never.
 * `shadow`: answer nothing, but compare with what Python answers. Returns 0 or an errno. */
int jfs_front_start(int hot, int spins, uint32_t chaos, int shadow);

/* Watch over Python, which beats: where it is silent for so long, and neither uses the processor nor waits for a disk, all
 * who wait for an answer get EIO, the mount is taken away, and the process ends with JFS_FRONT_HUNG. Returns 0 or an errno. */
int jfs_front_watch(const char *mountpoint, uint64_t silent_max_ns);
void jfs_front_watch_no_more(void);
void jfs_front_beat(void);

/* Stop reading ahead; what was read is still handed on. Returns when the front's thread is gone. */
void jfs_front_stop(void);

/* Wait for a request that Python has to answer, answering others; at most `timeout_ns`. `burst`: wait awake for a
 * moment if requests just came, as is done behind each that was answered. */
int jfs_front_wait(int trio_fd, int64_t timeout_ns, int burst);

/* Whether nothing waits to be read. */
int jfs_front_is_quiet(void);

/* Something is about to change: when this returns, nothing is answered any more of what was kept, nor being answered.
 * From any thread. */
void jfs_front_revoke(int how);

/* What is answered next, to the request that was handed on last, may be kept. */
void jfs_front_keep(int how);

/* Handles that were kept open for who would open the same file next, and are not any more. Returns how many. */
uint32_t jfs_front_returned(uint64_t *out, uint32_t room);

/* An open file whose content never changes, and that nothing depends on: the kernel is told to leave out its flushes. */
void jfs_front_opened(uint64_t handle);

/* Content of an open file from `offset` on; `ends`: nothing comes behind it. Copied. */
void jfs_front_content(uint64_t handle, uint64_t offset, const uint8_t *bytes, uint64_t count, int ends);

jfs_front_state *jfs_front_state_of(void);
void jfs_front_counts_of(jfs_front_counts *out);

#endif
