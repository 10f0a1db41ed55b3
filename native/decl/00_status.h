typedef enum {
    JFS_OK = 0,
    JFS_NO_MEMORY = 1,
    JFS_TORN = 2,
    JFS_RANGE = 3,
    JFS_MALFORMED = 4,
    JFS_FULL = 5,
    JFS_ABSENT = 6,
    JFS_EXISTS = 7,
    JFS_HELD = 8,
    JFS_SYSTEM = 9
} jfs_status;
