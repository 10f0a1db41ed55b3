/* What the front knows: attributes and names as of an epoch, lookups that it counted, and content of open files.
 *
 * Attributes and names are caches of fixed size: what takes a place drops what was there. The counts of lookups are
 * exact: with Python's they say how often the kernel knows a node.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "front_internal.h"

enum {
    NODES = 1 << 14,
    NAMES = 1 << 14,
    COUNTS = 1 << 14,
    HANDLES = 1 << 10,
    CONTENT_MAX_BYTES = 64 << 20,
    PARKED_MAX = 64 /* files that nobody has open, kept so for who opens them next */
};

typedef struct {
    uint64_t nodeid;
    uint64_t known;      /* as of this epoch Python has the node */
    uint64_t attributes; /* as of this epoch `attr` is what Python says, */
    int attributes_last; /* whatever is published in C */
    uint64_t lacks;      /* as of this epoch it lacks every plain name that is not kept */
    struct fuse_attr_out attr;
} node_row;

typedef struct {
    named by;
    int32_t error; /* 0: `entry` */
    struct fuse_entry_out entry;
} name_row;

typedef struct count_row {
    struct count_row *next;
    uint64_t nodeid, lookups;
} count_row;

struct handle_row {
    struct handle_row *next;
    uint64_t handle, offset, bytes;
    uint8_t *content;
    int ends, is_parked;
    uint64_t nodeid, opened; /* as of this epoch Python would open the node for `uid` so, as `out` says */
    uint32_t uid;
    struct fuse_open_out out;
};

static node_row nodes[NODES];
static name_row names[NAMES];
static const named_table all_names = {names, sizeof *names, NAMES / SET_ROWS};
static count_row *counts[COUNTS];
static handle_row *handles[HANDLES];

static handle_row *parked[PARKED_MAX]; /* as the last ones were released */
static uint32_t parked_count;
static handle_row *returned; /* for Python to close */

static void drop_content(handle_row *row);
static handle_row *handle_of(uint64_t handle);

static uint64_t mixed(uint64_t number) {
    number = (number ^ number >> 31) * 0x9e3779b97f4a7c15u;
    return number ^ number >> 29;
}

static uint64_t hash_of(uint64_t parent, const char *name) {
    uint64_t hash = mixed(parent);
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    return mixed(hash);
}

/* -- attributes and names -- */

/* Whether what was kept as of an epoch holds: `lasts` through what is published in C. */
static int holds(uint64_t epoch, int lasts) {
    JFS_ASSERT(epoch <= front.epoch);
    return epoch >= (lasts ? front.revoked : front.epoch);
}

static node_row *node_of(uint64_t nodeid) {
    node_row *set = &nodes[mixed(nodeid) % (NODES / SET_ROWS) * SET_ROWS];
    for (int way = 0; way < SET_ROWS; way++)
        if (set[way].nodeid == nodeid) return &set[way];
    return NULL;
}

static node_row *place_for_node(uint64_t nodeid) {
    node_row *found = node_of(nodeid);
    if (found) return found;
    node_row *set = &nodes[mixed(nodeid) % (NODES / SET_ROWS) * SET_ROWS];
    found = &set[mixed(nodeid ^ front.epoch) % SET_ROWS];
    for (int way = 0; way < SET_ROWS; way++)
        if (!holds(set[way].known, 1) && !holds(set[way].attributes, set[way].attributes_last)) found = &set[way];
    *found = (node_row){.nodeid = nodeid};
    return found;
}

static named *set_of(const named_table *table, uint64_t parent, const char *name) {
    return (named *)((uint8_t *)table->rows + hash_of(parent, name) % table->sets * SET_ROWS * table->row_bytes);
}

static named *next_of(const named_table *table, named *row) { return (named *)((uint8_t *)row + table->row_bytes); }

void *front_named(const named_table *table, uint64_t parent, uint32_t uid, const char *name) {
    named *row = set_of(table, parent, name);
    for (int place = 0; place < SET_ROWS; place++, row = next_of(table, row))
        if (row->parent == parent && row->uid == uid && strcmp(row->name, name) == 0) return row;
    return NULL;
}

void *front_place_for(const named_table *table, uint64_t parent, uint32_t uid, const char *name) {
    JFS_ASSERT(strlen(name) < NAME_MAX_BYTES);
    named *found = front_named(table, parent, uid, name);
    if (found) return found;
    named *row = set_of(table, parent, name);
    found = (named *)((uint8_t *)row + mixed(front.epoch) % SET_ROWS * table->row_bytes);
    for (int place = 0; place < SET_ROWS; place++, row = next_of(table, row))
        if (!holds(row->epoch, row->lasts)) found = row;
    memset(found, 0, table->row_bytes);
    found->parent = parent;
    found->uid = uid;
    strcpy(found->name, name);
    return found;
}

static name_row *name_of(uint64_t parent, const char *name) { return front_named(&all_names, parent, 0, name); }

/* A name that is no view, nothing staged and no part: `mount/names/grammar.py`. */
static int is_plain(const char *name) { return name[0] != '.' && name[0] != '_' && strncmp(name, "part-", 5) != 0; }

void front_keep_answer(const asked *of, int32_t error, const uint8_t *content, size_t bytes, int how) {
    JFS_ASSERT(front.epoch > 0);
    const int lasts = (how & JFS_KEEP_LASTS) != 0;
    front.kept = 1;
    if (of->opcode == FUSE_GETATTR) {
        if (error || bytes != sizeof(struct fuse_attr_out)) return;
        node_row *row = place_for_node(of->nodeid);
        memcpy(&row->attr, content, bytes);
        row->attributes = front.epoch;
        row->attributes_last = lasts;
        return;
    }
    if (of->opcode == FUSE_OPEN) {
        if (error || bytes != sizeof(struct fuse_open_out)) return;
        const struct fuse_open_out *out = (const void *)content;
        handle_row *opened = handle_of(out->fh);
        if (!opened) return;
        opened->out = *out;
        opened->nodeid = of->nodeid;
        opened->uid = of->uid;
        opened->opened = front.epoch;
        return;
    }
    if (of->opcode != FUSE_LOOKUP || !of->name[0]) return;
    if (error == 0 ? bytes != sizeof(struct fuse_entry_out) : error != -ENOENT) return;
    name_row *row = front_place_for(&all_names, of->nodeid, 0, of->name);
    row->error = error;
    row->by.epoch = front.epoch;
    row->by.lasts = lasts && (!error || is_plain(of->name));
    if (error) {
        if (how & JFS_KEEP_LACKS) place_for_node(of->nodeid)->lacks = front.epoch;
        return;
    }
    memcpy(&row->entry, content, bytes);
    place_for_node(row->entry.nodeid)->known = front.epoch;
}

/* A name that was missing is there. */
void front_drop_name(uint64_t parent, const char *name) {
    name_row *row = name_of(parent, name);
    node_row *directory = node_of(parent);
    if (row) row->by.epoch = 0;
    if (directory) directory->lacks = 0;
}

/* Chaos: what is kept may be gone at any time. */
void front_drop_one(uint64_t random) {
    const uint64_t hash = mixed(random);
    node_row *node = &nodes[hash % NODES];
    node->known = node->attributes = node->lacks = 0;
    names[hash / NODES % NAMES].by.epoch = 0;
    handle_row *handle = handles[hash % HANDLES];
    if (!handle) return;
    drop_content(handle);
    handle->opened = 0;
}

static int find_attributes(uint64_t nodeid, answer *found) {
    const node_row *row = node_of(nodeid);
    if (!row || !holds(row->attributes, row->attributes_last)) {
        front.counts.unknown += !row || !row->attributes;
        front.counts.revoked += row && row->attributes;
        return 0;
    }
    *found = (answer){.content = (const uint8_t *)&row->attr, .bytes = sizeof row->attr, .counter = &front.counts.getattr};
    return 1;
}

static int find_name(uint64_t parent, const char *name, answer *found) {
    const name_row *row = strlen(name) < NAME_MAX_BYTES ? name_of(parent, name) : NULL;
    const int is_kept = row && holds(row->by.epoch, row->by.lasts);
    if (is_kept && row->error == 0) {
        const node_row *node = node_of(row->entry.nodeid);
        if (!node || !holds(node->known, 1)) return front.counts.revoked++, 0;
        *found = (answer){.content = (const uint8_t *)&row->entry,
                          .bytes = sizeof row->entry,
                          .counted = row->entry.nodeid,
                          .counter = &front.counts.lookup};
        return 1;
    }
    const node_row *directory = node_of(parent);
    const int lacks = directory && holds(directory->lacks, 1) && is_plain(name) && strlen(name) <= 255;
    if (lacks || is_kept) {
        *found = (answer){.error = -ENOENT, .counter = &front.counts.missing};
        return 1;
    }
    front.counts.unknown += !row || !row->by.epoch;
    front.counts.revoked += row && row->by.epoch;
    return 0;
}

/* -- lookups -- */

/* 0: it cannot be. A lost count would take a node away that the kernel knows. */
int front_count_lookup(uint64_t nodeid) {
    count_row **at = &counts[mixed(nodeid) % COUNTS];
    for (count_row *row = *at; row; row = row->next)
        if (row->nodeid == nodeid) {
            row->lookups++;
            return 1;
        }
    count_row *row = malloc(sizeof *row);
    if (!row) return 0;
    *row = (count_row){*at, nodeid, 1};
    *at = row;
    return 1;
}

/* Take back lookups that the front counted. What is left is for Python to take back, whose node may go then. */
uint64_t front_uncount(uint64_t nodeid, uint64_t lookups) {
    for (count_row **at = &counts[mixed(nodeid) % COUNTS]; *at; at = &(*at)->next) {
        count_row *row = *at;
        if (row->nodeid != nodeid) continue;
        const uint64_t mine = row->lookups < lookups ? row->lookups : lookups;
        row->lookups -= mine;
        lookups -= mine;
        if (!row->lookups) {
            *at = row->next;
            free(row);
        }
        break;
    }
    node_row *node = node_of(nodeid);
    if (lookups && node) node->known = node->attributes = 0;
    return lookups;
}

/* -- open files -- */

static handle_row *handle_of(uint64_t handle) {
    for (handle_row *row = handles[mixed(handle) % HANDLES]; row; row = row->next)
        if (row->handle == handle) return row;
    return NULL;
}

int front_is_opened(uint64_t handle) { return handle_of(handle) != NULL; }

void front_leave_out_flushes(struct fuse_open_out *out) {
    if (handle_of(out->fh)) out->open_flags |= FOPEN_NOFLUSH;
}

void jfs_front_opened(uint64_t handle) {
    handle_row *row = calloc(1, sizeof *row);
    if (!row) return;
    pthread_mutex_lock(&front.device);
    handle_row **at = &handles[mixed(handle) % HANDLES];
    row->next = *at;
    row->handle = handle;
    *at = row;
    front.handles++;
    pthread_mutex_unlock(&front.device);
}

static void drop_content(handle_row *row) {
    JFS_ASSERT(front.counts.kept_bytes >= row->bytes);
    front.counts.kept_bytes -= row->bytes;
    free(row->content);
    row->content = NULL;
    row->bytes = 0;
}

static handle_row *taken_out(uint64_t handle) {
    for (handle_row **at = &handles[mixed(handle) % HANDLES]; *at; at = &(*at)->next) {
        handle_row *row = *at;
        if (row->handle != handle) continue;
        *at = row->next;
        drop_content(row);
        front.handles--;
        return row;
    }
    return NULL;
}

void front_released(uint64_t handle) { free(taken_out(handle)); }

void jfs_front_content(uint64_t handle, uint64_t offset, const uint8_t *bytes, uint64_t count, int ends) {
    uint8_t *content = malloc(count ? count : 1);
    if (!content) return;
    memcpy(content, bytes, count);
    pthread_mutex_lock(&front.device);
    handle_row *row = handle_of(handle);
    if (row && front.counts.kept_bytes - row->bytes + count <= CONTENT_MAX_BYTES) {
        drop_content(row);
        row->offset = offset;
        row->bytes = count;
        row->content = content;
        row->ends = ends;
        front.counts.kept_bytes += count;
        content = NULL;
    }
    pthread_mutex_unlock(&front.device);
    free(content);
}

/* -- files that are kept open -- */

/* Python has it open, and is to close it. */
static void give_back(uint64_t handle) {
    JFS_ASSERT(handle_of(handle) != NULL);
    handle_row *row = taken_out(handle);
    row->next = returned;
    returned = row;
    __atomic_store_n(&front.state.returned, front.state.returned + 1, __ATOMIC_SEQ_CST);
}

/* 1: its last user released it, and who opens the file next gets it. */
int front_park(uint64_t handle) {
    JFS_ASSERT(handle_of(handle) != NULL);
    JFS_ASSERT(parked_count <= PARKED_MAX);
    handle_row *row = handle_of(handle);
    if (row->is_parked) return 1;
    if (!front.hot || front.shadow || row->opened != front.epoch) return 0;
    row->is_parked = 1;
    if (parked_count == PARKED_MAX) {
        give_back(parked[0]->handle);
        memmove(parked, parked + 1, --parked_count * sizeof *parked);
    }
    parked[parked_count++] = row;
    return 1;
}

void front_unpark(handle_row *row) {
    JFS_ASSERT(row->is_parked);
    row->is_parked = 0;
    for (uint32_t place = 0; place < parked_count; place++)
        if (parked[place] == row) {
            memmove(parked + place, parked + place + 1, (--parked_count - place) * sizeof *parked);
            return;
        }
}

void front_return_parked(void) {
    while (parked_count) give_back(parked[--parked_count]->handle);
}

uint32_t jfs_front_returned(uint64_t *out, uint32_t room) {
    uint32_t count = 0;
    pthread_mutex_lock(&front.device);
    for (; returned && count < room; count++) {
        handle_row *row = returned;
        out[count] = row->handle;
        returned = row->next;
        free(row);
    }
    __atomic_store_n(&front.state.returned, front.state.returned - count, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&front.device);
    return count;
}

static int find_opened(const struct fuse_in_header *in, const struct fuse_open_in *asked_for, answer *found) {
    if ((asked_for->flags & (O_ACCMODE | O_TRUNC)) != O_RDONLY) return front.counts.other++, 0;
    for (uint32_t place = parked_count; place--;) {
        handle_row *row = parked[place];
        if (row->nodeid != in->nodeid || row->uid != in->uid || row->opened != front.epoch) continue;
        *found = (answer){.content = (const uint8_t *)&row->out,
                          .bytes = sizeof row->out,
                          .opens = row,
                          .counter = &front.counts.open};
        return 1;
    }
    return front.counts.unknown++, 0;
}

static int find_content(const struct fuse_read_in *asked_for, answer *found) {
    const handle_row *row = handle_of(asked_for->fh);
    if (!row) return front.counts.other++, 0;
    const uint64_t end = row->offset + row->bytes;
    if (!row->content || asked_for->offset < row->offset) return front.counts.unknown++, 0;
    const uint64_t left = asked_for->offset < end ? end - asked_for->offset : 0;
    if (left < asked_for->size && !row->ends) return front.counts.unknown++, 0;
    *found = (answer){.content = left ? row->content + (asked_for->offset - row->offset) : row->content,
                      .bytes = (uint32_t)(left < asked_for->size ? left : asked_for->size),
                      .counter = &front.counts.read};
    return 1;
}

/* Only by kernels before 5.16. */
static int find_flush(const struct fuse_flush_in *asked_for, answer *found) {
    const handle_row *row = handle_of(asked_for->fh);
    if (!row) return front.counts.other++, 0;
    *found = (answer){.counter = &front.counts.flush};
    return 1;
}

/* -- all of them -- */

/* The answer to a request, if it is known. `bytes` of arguments, which may be shorter than they should be. Who closed a
 * file is told before the file is released: what it asks next must show what the release publishes. */
int front_find(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes, answer *found) {
    if (front.releases && (in->opcode == FUSE_GETATTR || in->opcode == FUSE_LOOKUP)) {
        front.counts.releasing++;
        return 0;
    }
    switch (in->opcode) {
    case FUSE_GETATTR:
        return find_attributes(in->nodeid, found);
    case FUSE_LOOKUP:
        if (!bytes || arguments[bytes - 1]) break;
        return find_name(in->nodeid, (const char *)arguments, found);
    case FUSE_OPEN:
        if (bytes < sizeof(struct fuse_open_in)) break;
        return find_opened(in, (const void *)arguments, found);
    case FUSE_READ:
        if (bytes < sizeof(struct fuse_read_in)) break;
        return find_content((const void *)arguments, found);
    case FUSE_FLUSH:
        if (bytes < sizeof(struct fuse_flush_in)) break;
        return find_flush((const void *)arguments, found);
    }
    front.counts.other++;
    return 0;
}

/* -- all of them compared with what is counted -- */

static const char *check_lookups(void) {
    for (uint32_t place = 0; place < COUNTS; place++)
        for (const count_row *row = counts[place]; row; row = row->next) {
            JFS_HOLDS(row->lookups > 0);
            JFS_HOLDS(mixed(row->nodeid) % COUNTS == place);
        }
    return NULL;
}

const char *front_tables_check(void) {
    uint64_t kept_bytes = 0;
    uint32_t opened = 0, are_parked = 0, given_back = 0;
    for (uint32_t place = 0; place < HANDLES; place++)
        for (const handle_row *row = handles[place]; row; row = row->next) {
            opened++;
            are_parked += row->is_parked != 0;
            kept_bytes += row->bytes;
            JFS_HOLDS(mixed(row->handle) % HANDLES == place);
            JFS_HOLDS(row->content || !row->bytes);
        }
    JFS_HOLDS(opened == front.handles);
    JFS_HOLDS(kept_bytes == front.counts.kept_bytes && kept_bytes <= CONTENT_MAX_BYTES);
    JFS_HOLDS(parked_count <= PARKED_MAX && are_parked == parked_count);
    for (uint32_t place = 0; place < parked_count; place++) JFS_HOLDS(parked[place]->is_parked);
    for (const handle_row *row = returned; row; row = row->next) given_back++;
    JFS_HOLDS(given_back == front.state.returned);
    return check_lookups();
}
