/* Status codes of every function of the C core. */
#ifndef JFS_STATUS_H
#define JFS_STATUS_H

typedef enum {
    JFS_OK = 0,
    JFS_NO_MEMORY = 1,
    JFS_TORN = 2,      /* a mapped file lost bytes while it was read */
    JFS_RANGE = 3,     /* an argument lies outside its buffer */
    JFS_MALFORMED = 4, /* the bytes are not what their place requires */
    JFS_FULL = 5,      /* the output array is full; call again from where it stopped */
    JFS_ABSENT = 6,    /* nothing of that id is there */
    JFS_EXISTS = 7,    /* something of that id is there already */
    JFS_HELD = 8,      /* an open transaction has a claim on it */
    JFS_SYSTEM = 9     /* the kernel refused; its errno was put where the caller asked */
} jfs_status;

#endif
