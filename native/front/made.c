/* Files that are made here, to have lines written to: as Python answered who made one of the same name before. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "front_internal.h"

enum {
    MAKINGS = 1 << 8,
    MADE_NODES = 1 << 8,
    OPEN_MAX = 64, /* files of which Python does not know that they are open: so many more than it allows there may be */
    BLOCK_BYTES = 512
};

/* Numbers that Python gives to nothing (`mount/nodes/inodes.py`, `mount/kernel/handles.py`). */
static const uint64_t first_node = (uint64_t)1 << 60, first_handle = (uint64_t)1 << 62;

/* All other flags need a decision. */
static const uint32_t plain_flags = O_WRONLY | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW | 0100000;

typedef struct { /* an answer to CREATE, as libfuse writes it */
    struct fuse_entry_out entry;
    struct fuse_open_out out;
} created;

typedef struct {
    named by;
    void *way;
    created answer;
} making;

typedef struct made_row {
    jfs_front_made made;
    struct made_row *next;
    struct fuse_attr_out attr;
} made_row;

static making makings[MAKINGS];
static const named_table all_makings = {makings, sizeof *makings, MAKINGS / SET_ROWS};
static made_row *made_nodes[MADE_NODES]; /* that the kernel knows and Python does not */
static made_row *open_made[OPEN_MAX];
static uint64_t serial;
static void *keep_way;

/* Python revoked when it began with the request, and nobody did since. */
void front_keep_create(const asked *of, const uint8_t *content, size_t bytes) {
    if (!of->name[0] || bytes != sizeof(created) || of->epoch + 1 != front.revoked || !keep_way) return;
    making *row = front_place_for(&all_makings, of->nodeid, of->uid, of->name);
    memcpy(&row->answer, content, bytes);
    row->way = keep_way;
    row->by.epoch = front.epoch;
    row->by.lasts = 1;
    front.kept = 1;
    keep_way = NULL;
    __atomic_store_n(&front.state.live, 1, __ATOMIC_SEQ_CST);
}

void jfs_front_makes(void *way) {
    keep_way = way;
    jfs_front_keep(JFS_KEEP_ANSWER);
}

void jfs_front_makes_no_more(void) {
    pthread_mutex_lock(&front.device);
    for (int place = 0; place < MAKINGS; place++) makings[place].by.epoch = 0;
    pthread_mutex_unlock(&front.device);
}

/* -- what was made -- */

static made_row *made_of(uint64_t nodeid) {
    if (nodeid < first_node || nodeid >= first_node << 1) return NULL;
    made_row *row = made_nodes[nodeid % MADE_NODES];
    while (row && row->made.nodeid != nodeid) row = row->next;
    return row;
}

static void drop_node(made_row *row) {
    JFS_ASSERT(made_of(row->made.nodeid) == row);
    made_row **at = &made_nodes[row->made.nodeid % MADE_NODES];
    while (*at != row) at = &(*at)->next;
    *at = row->next;
}

static int is_open(const made_row *row) { return row->made.file.handle != 0; }

static void drop_open(const made_row *row) {
    JFS_ASSERT(is_open(row));
    for (uint32_t place = 0; place < front_lent.made; place++)
        if (open_made[place] == row) {
            open_made[place] = open_made[--front_lent.made];
            return;
        }
}

static void touch(struct fuse_attr *attr) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    attr->atime = attr->mtime = attr->ctime = (uint64_t)now.tv_sec;
    attr->atimensec = attr->mtimensec = attr->ctimensec = (uint32_t)(now.tv_nsec / 1000000 * 1000000);
}

static made_row *make(const struct fuse_in_header *in, uint32_t flags, const making *by, created *answers) {
    JFS_ASSERT(by->way != NULL);
    made_row *row = calloc(1, sizeof *row);
    if (!row) return NULL;
    *answers = by->answer;
    answers->entry.nodeid = answers->entry.attr.ino = first_node + ++serial;
    answers->out.fh = first_handle + serial;
    touch(&answers->entry.attr);
    row->made = (jfs_front_made){
        .file = {.handle = answers->out.fh, .way = by->way, .appends = (flags & O_APPEND) != 0, .is_made = 1, .is_own = 1},
        .nodeid = answers->entry.nodeid, .parent = by->by.parent, .lookups = 1, .uid = in->uid, .pid = in->pid, .flags = flags};
    strcpy(row->made.name, by->by.name);
    row->attr = (struct fuse_attr_out){.attr_valid = answers->entry.attr_valid,
                                       .attr_valid_nsec = answers->entry.attr_valid_nsec,
                                       .attr = answers->entry.attr};
    return row;
}

static void enter(made_row *row) {
    JFS_ASSERT(front_lent.made < OPEN_MAX);
    JFS_ASSERT(made_of(row->made.nodeid) == NULL);
    row->next = made_nodes[row->made.nodeid % MADE_NODES];
    made_nodes[row->made.nodeid % MADE_NODES] = row;
    open_made[front_lent.made++] = row;
    front_enter_file(&row->made.file);
}

/* Who may not, is counted by why. */
static const making *may_make(const struct fuse_in_header *in, uint32_t flags, const char *name) {
    uint64_t *reason = NULL;
    const making *by = front_named(&all_makings, in->nodeid, in->uid, name);
    if (!by)
        reason = &front.counts.unknown;
    else if (by->by.epoch < front.revoked)
        reason = &front.counts.revoked;
    else if (front_lent.held)
        reason = &front.counts.held;
    else if (!front_lent.tail)
        reason = &front.counts.unlent;
    else if (front.releases)
        reason = &front.counts.releasing;
    else if ((flags & O_ACCMODE) != O_WRONLY || flags & ~plain_flags)
        reason = &front.counts.flags;
    else if (front_lent.made == OPEN_MAX)
        reason = &front.counts.crowded;
    if (reason) ++*reason;
    return reason ? NULL : by;
}

int front_create(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes) {
    const struct fuse_create_in *asked_for = (const void *)arguments;
    const char *name = (const char *)(asked_for + 1);
    created answers;
    if (bytes <= sizeof *asked_for || strnlen(name, bytes - sizeof *asked_for) >= NAME_MAX_BYTES ||
        !memchr(name, 0, bytes - sizeof *asked_for)) {
        front.counts.other++;
        return 0;
    }
    const making *by = may_make(in, asked_for->flags, name);
    made_row *row = by ? make(in, asked_for->flags, by, &answers) : NULL;
    if (!row) return 0;
    const answer found = {.content = (const void *)&answers, .bytes = sizeof answers};
    if (!front_write_answer(in->unique, &found)) {
        free(row); /* who asked does not wait any more, and the kernel knows nothing of it */
        return 1;
    }
    enter(row);
    front.counts.create++;
    return 1;
}

int front_made_attributes(const struct fuse_in_header *in) {
    made_row *row = made_of(in->nodeid);
    if (!row || !is_open(row)) return 0;
    row->attr.attr.size = row->made.file.bytes;
    row->attr.attr.blocks = (row->made.file.bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    touch(&row->attr.attr);
    const answer found = {.content = (const void *)&row->attr, .bytes = sizeof row->attr};
    front_write_answer(in->unique, &found);
    front.counts.getattr++;
    return 1;
}

/* Whether a file of this name was made here and is open: Python is to find it, then. */
int front_made_named(uint64_t parent, const uint8_t *name, size_t bytes) {
    if (!bytes || name[bytes - 1]) return 0;
    for (uint32_t place = 0; place < front_lent.made; place++) {
        const jfs_front_made *made = &open_made[place]->made;
        if (made->parent != parent || strcmp(made->name, (const char *)name) != 0) continue;
        front.counts.named++;
        front_lent.wanted = front_lent.news = 1;
        return 1;
    }
    return 0;
}

/* Whether a node is known here alone. */
int front_made_forgets(uint64_t nodeid, uint64_t lookups) {
    made_row *row = made_of(nodeid);
    if (!row) return 0;
    row->made.lookups -= lookups < row->made.lookups ? lookups : row->made.lookups;
    if (!row->made.lookups && !is_open(row)) {
        drop_node(row);
        free(row);
    }
    return 1;
}

/* Python is asked something of a node. */
void front_made_wants(uint64_t nodeid) {
    const made_row *row = made_of(nodeid);
    if (row && is_open(row)) front_lent.wanted = front_lent.news = 1;
}

/* One that Python does not know. */
void front_made_closed(jfs_front_file *file) {
    JFS_ASSERT(file->is_own && file->handle != 0);
    made_row *row = (void *)file;
    drop_open(row);
    front_leave_file(file);
    file->handle = 0;
    if (row->made.lookups) return;
    drop_node(row);
    free(row);
}

jfs_front_made *jfs_front_adopt(void) {
    made_row *row = NULL;
    pthread_mutex_lock(&front.device);
    if (front_lent.made) {
        row = open_made[--front_lent.made];
        drop_node(row);
        row->made.file.is_own = 0;
        front_drop_name(row->made.parent, row->made.name); /* from here on Python says that it is open */
    } else {
        front_lent.wanted = 0;
    }
    pthread_mutex_unlock(&front.device);
    return row ? &row->made : NULL;
}

const char *front_made_check(void) {
    JFS_HOLDS(front_lent.made <= OPEN_MAX);
    for (uint32_t place = 0; place < front_lent.made; place++) {
        const made_row *row = open_made[place];
        JFS_HOLDS(is_open(row));
        JFS_HOLDS(made_of(row->made.nodeid) == row);
        JFS_HOLDS(row->made.file.is_own && memchr(row->made.name, 0, sizeof row->made.name));
    }
    for (uint32_t place = 0; place < MADE_NODES; place++)
        for (const made_row *row = made_nodes[place]; row; row = row->next)
            JFS_HOLDS(row->made.nodeid % MADE_NODES == place && (row->made.lookups || is_open(row)));
    return NULL;
}
