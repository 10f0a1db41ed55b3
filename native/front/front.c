/* Reading /dev/fuse ahead of libfuse: who reads, in what order, and how answers go back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "front_internal.h"

enum {
    PAGES_MAX = 256,          /* of a request, as libfuse has it */
    HEAD_BYTES = 4096,
    ASKED = 1 << 9,
    SPARES_MAX = 8,           /* blocks that wait to be used again, a megabyte each */
    READ_AHEAD_MAX = 64,      /* requests that are read while Python is away */
    LARGE_BYTES = 1 << 16,    /* what follows such a request is read where libfuse wants it, not copied */
    TICK_NS = 1000000,        /* so long Python may be away before another reads */
    TICK_IDLE_NS = 20000000,
    IDLE_NS = 20000000,
    BURST_NS = 500000,        /* who asked this recently is likely to ask again at once */
    SPIN_NS = 60000           /* about what waking a sleeping processor takes */
};

enum { READ_NOTHING, READ_ANSWERED, READ_QUEUED, READ_OVER };

static asked given[ASKED];       /* what was handed on, by its number */
static expected shadows[ASKED];
static uint64_t *releases;
static uint32_t releases_room;

static struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wanted;
    _Atomic uint64_t away_since; /* 0: Python waits for requests itself */
    _Atomic uint64_t latest;     /* when a request was read last */
    _Atomic int asleep, ending;
    _Atomic int is_large; /* the request that was read last, and it is Python's */
    int event; /* wakes Python, where it waits already when something is queued */
} reader = {.event = -1, .mutex = PTHREAD_MUTEX_INITIALIZER, .wanted = PTHREAD_COND_INITIALIZER};

static void rest(int64_t ns) {
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

/* -- blocks -- */

static size_t block_bytes(void) { return (size_t)PAGES_MAX * (size_t)sysconf(_SC_PAGESIZE) + HEAD_BYTES; }

static block *new_block(void) {
    block *found = front_queue.spare;
    if (!found) return malloc(sizeof *found + block_bytes());
    front_queue.spare = found->next;
    front_queue.spares--;
    return found;
}

static void free_block(block *used) {
    JFS_ASSERT(front_queue.spares <= SPARES_MAX);
    if (front_queue.spares == SPARES_MAX) {
        free(used);
        return;
    }
    used->next = front_queue.spare;
    front_queue.spare = used;
    front_queue.spares++;
}

static void enqueue(block *read) {
    JFS_ASSERT(front_queue.last && !*front_queue.last);
    read->next = NULL;
    *front_queue.last = read;
    front_queue.last = &read->next;
    front_queue.count++;
}

static block *dequeue(void) {
    JFS_ASSERT(!front_queue.first == !front_queue.count);
    block *first = front_queue.first;
    if (!first) return NULL;
    front_queue.first = first->next;
    if (!front_queue.first) front_queue.last = &front_queue.first;
    front_queue.count--;
    return first;
}

/* -- answering -- */

static void expect(uint64_t unique, const answer *found) {
    JFS_ASSERT(front.shadow);
    expected *place = &shadows[unique >> 1 & (ASKED - 1)];
    uint8_t *content = realloc(place->content, found->bytes + 1);
    if (!content) return;
    if (found->bytes) memcpy(content, found->content, found->bytes);
    *place = (expected){unique, front.epoch, found->error, found->bytes, content};
}

static void upset(void) {
    static uint64_t random = 88172645463325252u;
    if (!front.chaos || --front.until_chaos) return;
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    front.until_chaos = 1 + (uint32_t)(random % front.chaos);
    if (random >> 32 & 3)
        for (int i = 0; i < 64; i++) front_drop_one(random + (uint64_t)i);
    else
        front.revoked = ++front.epoch;
    if (front_lent.made && random >> 34 & 1) front_lent.wanted = front_lent.news = 1;
}

/* Take back lookups. What is left is for Python to take back. */
static uint64_t take_back(uint64_t nodeid, uint64_t lookups) {
    return front_made_forgets(nodeid, lookups) ? 0 : front_uncount(nodeid, lookups);
}

/* 1: Python need not hear of it. The request is changed to what is left. */
static int forget(const struct fuse_in_header *in, uint8_t *arguments, size_t bytes) {
    if (in->opcode == FUSE_FORGET) {
        struct fuse_forget_in *one = (void *)arguments;
        if (bytes < sizeof *one) return 0;
        one->nlookup = take_back(in->nodeid, one->nlookup);
        return one->nlookup == 0;
    }
    struct fuse_batch_forget_in *batch = (void *)arguments;
    struct fuse_forget_one *list = (void *)(batch + 1);
    if (bytes < sizeof *batch || batch->count > (bytes - sizeof *batch) / sizeof *list) return 0;
    uint32_t left = 0;
    for (uint32_t place = 0; place < batch->count; place++) {
        list[place].nlookup = take_back(list[place].nodeid, list[place].nlookup);
        if (list[place].nlookup) list[left++] = list[place];
    }
    batch->count = left;
    return left == 0;
}

/* 1: answered. */
static int answered(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes) {
    answer found;
    upset();
    if (!front_find(in, arguments, bytes, &found)) return 0;
    if (front.shadow) {
        expect(in->unique, &found);
        return 0;
    }
    if (found.counted && !front_count_lookup(found.counted)) return 0;
    if (front_write_answer(in->unique, &found)) {
        ++*found.counter;
        if (found.opens) front_unpark(found.opens);
    } else if (found.counted) {
        take_back(found.counted, 1);
    }
    return 1; /* where it could not be written, who asked does not wait any more */
}

/* 1: answered. */
static int note_release(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes) {
    JFS_ASSERT(front.releases <= releases_room);
    if (bytes < sizeof(struct fuse_release_in)) return 0;
    const uint64_t handle = ((const struct fuse_release_in *)(const void *)arguments)->fh;
    jfs_front_file *const file = front_file_of(handle);
    if (file && front_release_file(in, file)) {
        if (file->is_own) front_made_closed(file);
        return 1;
    }
    if (front_is_opened(handle)) {
        upset();
        if (front_park(handle)) {
            const answer nothing = {0};
            front_write_answer(in->unique, &nothing);
            front.counts.release++;
            return 1;
        }
        front_released(handle);
        return 0;
    }
    if (front.releases == releases_room) {
        const uint32_t room = releases_room ? 2 * releases_room : 64;
        uint64_t *more = realloc(releases, room * sizeof *releases);
        if (!more) return front.blind = 1, 0; /* a lost one would show what was before it was published */
        releases = more, releases_room = room;
    }
    releases[front.releases++] = in->unique;
    return 0;
}

static jfs_front_file *flushed(const uint8_t *arguments, size_t bytes) {
    if (bytes < sizeof(struct fuse_flush_in)) return NULL;
    return front_file_of(((const struct fuse_flush_in *)(const void *)arguments)->fh);
}

/* 1: answered. Those that have to do with files that lines are written to, and any that only look. */
static int answered_by_kind(const struct fuse_in_header *in, const uint8_t *arguments, size_t bytes) {
    jfs_front_file *file;
    switch (in->opcode) {
    case FUSE_WRITE:
        return front_publish(in, arguments, bytes);
    case FUSE_FLUSH:
        file = flushed(arguments, bytes);
        if (file) return front_flush_file(in, file);
        break;
    case FUSE_CREATE:
        upset();
        return front_create(in, arguments, bytes);
    case FUSE_GETATTR:
        if (front_made_attributes(in)) return 1;
        break;
    case FUSE_LOOKUP:
        if (front_made_named(in->nodeid, arguments, bytes)) return 0;
        break;
    case FUSE_INTERRUPT:
        if (front_publishing(arguments, bytes)) return 1;
    }
    return answered(in, arguments, bytes);
}

/* 1: answered, or Python need not hear of it. */
static int taken_by_kind(const struct fuse_in_header *in, uint8_t *arguments, size_t bytes) {
    switch (in->opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        return forget(in, arguments, bytes);
    case FUSE_RELEASE:
        return note_release(in, arguments, bytes);
    }
    if (front.hot && !front.blind) return answered_by_kind(in, arguments, bytes);
    front.counts.other++;
    return 0;
}

static int taken(uint8_t *request, size_t bytes) {
    struct fuse_in_header *in = (void *)request;
    atomic_store_explicit(&reader.latest, front_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&reader.is_large, 0, memory_order_relaxed);
    if (bytes < sizeof *in) return 0;
    if (taken_by_kind(in, (uint8_t *)(in + 1), bytes - sizeof *in)) return 1;
    front_made_wants(in->nodeid);
    atomic_store_explicit(&reader.is_large, bytes > LARGE_BYTES, memory_order_relaxed);
    return 0;
}

/* Read one request, and answer it or queue it. */
static int read_one(void) {
    pthread_mutex_lock(&front.device);
    block *read_into = new_block();
    int done = READ_NOTHING;
    if (read_into) {
        const ssize_t bytes = read(front.fd, read_into->content, block_bytes());
        if (bytes < 0) {
            done = errno == EAGAIN || errno == EINTR || errno == ENOENT ? READ_NOTHING : READ_OVER;
            free_block(read_into);
        } else {
            read_into->bytes = (size_t)bytes;
            done = taken(read_into->content, read_into->bytes) ? READ_ANSWERED : READ_QUEUED;
            if (done == READ_QUEUED)
                enqueue(read_into);
            else
                free_block(read_into);
        }
    }
    JFS_ASSERT(!front_queue_check() && !front_tables_check() && !front_publish_check() && !front_made_check());
    pthread_mutex_unlock(&front.device);
    return done; /* where there is no block left, something is queued */
}

/* -- libfuse's side -- */

static void remember(const uint8_t *request, size_t all_bytes) {
    JFS_ASSERT(all_bytes <= block_bytes());
    const struct fuse_in_header *in = (const void *)request;
    if (all_bytes < sizeof *in) return;
    front_keeping.at_hand = in->unique;
    if (front_is_answered(in->opcode)) front_note_request(in->unique);
    if (!front.hot || (in->opcode != FUSE_GETATTR && in->opcode != FUSE_LOOKUP && in->opcode != FUSE_OPEN &&
                       in->opcode != FUSE_CREATE))
        return;
    asked *place = &given[in->unique >> 1 & (ASKED - 1)];
    *place = (asked){in->unique, in->nodeid, front.epoch, in->opcode, in->uid, ""};
    const size_t before = in->opcode == FUSE_CREATE ? sizeof(struct fuse_create_in) : 0;
    const size_t bytes = all_bytes - sizeof *in;
    if ((in->opcode == FUSE_LOOKUP || in->opcode == FUSE_CREATE) && bytes > before) {
        const char *name = (const char *)(in + 1) + before;
        const size_t length = strnlen(name, bytes - before);
        if (length < bytes - before && length < NAME_MAX_BYTES) memcpy(place->name, name, length + 1);
    }
    __atomic_store_n(&front.state.live, 1, __ATOMIC_SEQ_CST);
}

static ssize_t read_for_libfuse(int fd, void *into, size_t room, void *userdata) {
    (void)userdata;
    pthread_mutex_lock(&front.device);
    block *first = dequeue();
    ssize_t bytes;
    int failed = 0;
    if (first) {
        bytes = (ssize_t)(first->bytes < room ? first->bytes : room);
        memcpy(into, first->content, (size_t)bytes);
        free_block(first);
    } else {
        bytes = read(fd, into, room); /* says so when the mount is over */
        failed = bytes < 0 ? errno : 0;
        if (failed == EAGAIN || (!failed && front.started && taken(into, (size_t)bytes))) failed = EINTR;
    }
    if (!failed) remember(into, (size_t)bytes);
    pthread_mutex_unlock(&front.device);
    errno = failed;
    return failed ? -1 : bytes;
}

static void compare(uint64_t unique, int32_t error, const uint8_t *content, size_t bytes) {
    JFS_ASSERT(front.shadow);
    expected *place = &shadows[unique >> 1 & (ASKED - 1)];
    if (place->unique != unique) return;
    place->unique = 0;
    if (place->epoch != front.epoch) return;
    front.counts.compared++;
    front.counts.differed +=
        place->error != error || place->bytes != bytes || (bytes && memcmp(place->content, content, bytes));
}

static void forget_release(uint64_t unique) {
    for (uint32_t place = 0; place < front.releases; place++)
        if (releases[place] == unique) {
            releases[place] = releases[--front.releases];
            return;
        }
}

static void look_at_answer(const struct fuse_out_header *head, const uint8_t *content, size_t bytes) {
    if (front.releases) forget_release(head->unique);
    if (front.shadow) compare(head->unique, head->error, content, bytes);
    if (front_keeping.keep_for != head->unique) return;
    front_keeping.keep_for = 0;
    const asked *of = &given[head->unique >> 1 & (ASKED - 1)];
    if (of->unique != head->unique) return;
    if (of->opcode == FUSE_CREATE)
        front_keep_create(of, content, head->error ? 0 : bytes);
    else if (of->epoch == front.epoch)
        front_keep_answer(of, head->error, content, bytes, front_keeping.keep_how);
}

/* What is written and what is kept of it are one step: no forget of the node is read between. */
static ssize_t write_for_libfuse(int fd, struct iovec *pieces, int count, void *userdata) {
    (void)userdata;
    const struct fuse_out_header *head = pieces[0].iov_base;
    if (!head->unique || !front.started) return writev(fd, pieces, count); /* a notice, which may wait for Python */
    pthread_mutex_lock(&front.device);
    const asked *of = &given[head->unique >> 1 & (ASKED - 1)];
    if (of->unique == head->unique && of->opcode == FUSE_OPEN && count > 1 &&
        pieces[1].iov_len == sizeof(struct fuse_open_out))
        front_leave_out_flushes(pieces[1].iov_base);
    const ssize_t written = writev(fd, pieces, count);
    const int failed = written < 0 ? errno : 0;
    front_note_answer(head->unique);
    if (!failed || failed == ENOENT) {
        if (failed) front_keeping.keep_for = 0;
        look_at_answer(head, count > 1 ? pieces[1].iov_base : NULL, count > 1 ? pieces[1].iov_len : 0);
    }
    pthread_mutex_unlock(&front.device);
    errno = failed;
    return written;
}

/* -- taking the session over -- */

struct fuse_session;

/* As libfuse has it from 3.13 on, and longer: what is behind stays empty. */
typedef struct {
    ssize_t (*writev)(int fd, struct iovec *pieces, int count, void *userdata);
    ssize_t (*read)(int fd, void *into, size_t room, void *userdata);
    void *rest[8];
} custom_io;

static int armed;

void jfs_front_arm(void) {
    armed = 1;
    front.problem = "pyfuse3 did not mount through the front: it was loaded before, or is linked statically";
}

const char *jfs_front_problem(void) { return front.claimed ? NULL : front.problem; }

static void claim(struct fuse_session *session, void *libfuse) {
    int (*descriptor)(struct fuse_session *) = (int (*)(struct fuse_session *))dlsym(libfuse, "fuse_session_fd");
    int (*take_over)(struct fuse_session *, const custom_io *, int) =
        (int (*)(struct fuse_session *, const custom_io *, int))dlsym(libfuse, "fuse_session_custom_io");
    if (!descriptor || !take_over) {
        front.problem = "libfuse is older than 3.13";
        return;
    }
    const int fd = descriptor(session), flags = fcntl(fd, F_GETFL);
    if (fd < 0 || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) {
        front.problem = "the FUSE descriptor cannot be read without waiting";
        return;
    }
    const custom_io io = {.writev = write_for_libfuse, .read = read_for_libfuse};
    if (take_over(session, &io, fd)) {
        front.problem = "libfuse lets nobody else read";
        fcntl(fd, F_SETFL, flags);
        return;
    }
    front.fd = fd;
    front.claimed = 1;
}

typedef int (*session_mount)(struct fuse_session *, const char *);

int fuse_session_mount(struct fuse_session *session, const char *mountpoint);

/* libfuse's own, and where to find more of it. Of a library that was opened, its own and what it needs are looked
 * through: this is neither. Who was loaded before all else, and calls this as the next, has one of its own. */
static session_mount libfuse_mount(const void *called_by, void **libfuse) {
    static const char *const names[] = {NULL, "libfuse3.so.3", "libfuse3.so.4"};
    Dl_info caller, owner;
    if (!dladdr(called_by, &caller)) return NULL;
    for (size_t place = 0; place < sizeof names / sizeof *names; place++) {
        *libfuse = dlopen(place ? names[place] : caller.dli_fname, RTLD_NOW | RTLD_NOLOAD);
        void *const found = *libfuse ? dlsym(*libfuse, "fuse_session_mount") : NULL;
        if (found && dladdr(found, &owner) && owner.dli_fbase != caller.dli_fbase &&
            (session_mount)found != fuse_session_mount)
            return (session_mount)found;
    }
    return NULL;
}

/* Found before libfuse's own where this was loaded with RTLD_GLOBAL before who calls it. */
__attribute__((visibility("default"))) int fuse_session_mount(struct fuse_session *session, const char *mountpoint) {
    void *libfuse;
    const session_mount mount_it = libfuse_mount(__builtin_return_address(0), &libfuse);
    if (!mount_it) return -1;
    const int failed = mount_it(session, mountpoint);
    if (!failed && armed) claim(session, libfuse);
    return failed;
}

/* -- waiting -- */

static int poll_all(struct pollfd *all, int64_t timeout_ns) {
    const struct timespec time = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    const int found = ppoll(all, 3, &time, NULL);
    return found < 0 ? 0 : found;
}

static int poll_awake(struct pollfd *all, uint64_t now) {
    const uint64_t latest = atomic_load_explicit(&reader.latest, memory_order_relaxed);
    if (!front.spins || now - latest >= BURST_NS) return 0;
    int found = 0;
    for (const uint64_t end = now + SPIN_NS; !found && now < end; now = front_now_ns()) found = poll_all(all, 0);
    return found;
}

/* Whether another may be read before what waits is made durable. */
static int read_more(void) {
    const int done = read_one();
    if (done != READ_QUEUED) return done == READ_ANSWERED;
    pthread_mutex_lock(&front.device);
    const int may = front_queue.count < READ_AHEAD_MAX;
    pthread_mutex_unlock(&front.device);
    return may;
}

/* What was queued while nothing was lent may be for here. Returns whether Python is to hear of it at once. */
static int publish_queued(void) {
    pthread_mutex_lock(&front.device);
    for (block *first = front_queue.first; first && first->bytes > sizeof(struct fuse_in_header); first = front_queue.first) {
        const struct fuse_in_header *in = (const void *)first->content;
        const uint8_t *arguments = (const uint8_t *)(in + 1);
        if (in->opcode != FUSE_WRITE) break;
        front_queue.first = NULL; /* nothing waits before it */
        const int is_staged = front_publish(in, arguments, first->bytes - sizeof *in);
        front_queue.first = first;
        if (!is_staged) break;
        free_block(dequeue());
    }
    pthread_mutex_unlock(&front.device);
    return front_publish_waiting(read_more);
}

static int is_queued(void) {
    pthread_mutex_lock(&front.device);
    const int found = front_queue.first != NULL;
    pthread_mutex_unlock(&front.device);
    return found;
}

static void wake_reader(void) {
    if (!atomic_load(&reader.asleep)) return;
    pthread_mutex_lock(&reader.mutex);
    pthread_cond_signal(&reader.wanted);
    pthread_mutex_unlock(&reader.mutex);
}

static int wait_here(int trio_fd, int64_t timeout_ns, int burst) {
    const uint64_t began = front_now_ns(), deadline = began + (uint64_t)timeout_ns;
    uint64_t now = began;
    for (;; burst = 1) {
        if (publish_queued()) return JFS_FRONT_TRIO;
        if (is_queued()) return JFS_FRONT_REQUEST;
        struct pollfd all[3] = {{front.fd, POLLIN, 0}, {trio_fd, POLLIN, 0}, {reader.event, POLLIN, 0}};
        int found = poll_all(all, 0);
        if (!found && burst) found = poll_awake(all, now);
        if (!found && now < deadline) found = poll_all(all, (int64_t)(deadline - now));
        if (found && all[0].revents) {
            if (atomic_load_explicit(&reader.is_large, memory_order_relaxed)) return JFS_FRONT_REQUEST;
            const int done = all[0].revents & POLLIN ? read_one() : READ_OVER;
            if (front_publish_waiting(read_more)) return JFS_FRONT_TRIO;
            if (done == READ_QUEUED || done == READ_OVER) return JFS_FRONT_REQUEST;
            wake_reader();
        }
        if (found && all[1].revents) return JFS_FRONT_TRIO;
        eventfd_t rung;
        if (found && all[2].revents) { /* it is queued, or Python is to hear of what was published */
            eventfd_read(reader.event, &rung);
            if (publish_queued() || !is_queued()) return JFS_FRONT_TRIO;
        }
        now = front_now_ns();
        /* Also while requests keep coming that are answered here. */
        if (now >= deadline) return is_queued() ? JFS_FRONT_REQUEST : JFS_FRONT_TIME;
    }
}

int jfs_front_wait(int trio_fd, int64_t timeout_ns, int burst) {
    atomic_store(&reader.away_since, 0);
    pthread_mutex_lock(&front.device);
    front_lent.held = 0;
    pthread_mutex_unlock(&front.device);
    const int found = wait_here(trio_fd, timeout_ns, burst);
    atomic_store(&reader.away_since, front_now_ns());
    if (found == JFS_FRONT_REQUEST) wake_reader();
    return found;
}

int jfs_front_is_quiet(void) {
    struct pollfd one = {front.fd, POLLIN, 0};
    return !is_queued() && poll(&one, 1, 0) == 0;
}

/* -- the thread that reads while Python is away -- */

/* Whether there is room for what Python has to answer, and anything that could be answered without. */
static int may_read_ahead(void) {
    pthread_mutex_lock(&front.device);
    const int may = front_queue.count < READ_AHEAD_MAX && (front.kept || front.handles || front_lent.made || (!front_lent.held && front_lent.tail));
    pthread_mutex_unlock(&front.device);
    return may;
}

/* Returns how long to rest. */
static int64_t read_while_away(int64_t rested_ns) {
    struct pollfd one = {front.fd, POLLIN, 0};
    int any = 0;
    while (atomic_load(&reader.away_since) && !atomic_load(&reader.ending) && may_read_ahead()) {
        if (poll(&one, 1, 1) != 1 || !(one.revents & POLLIN)) break;
        const int done = read_one();
        if (done == READ_OVER || done == READ_NOTHING) break;
        const int tells = front_publish_waiting(read_more);
        any += done != READ_NOTHING;
        /* Python waits since, and looked before any of it was read, also of what was gathered. */
        if ((tells || is_queued()) && !atomic_load(&reader.away_since)) eventfd_write(reader.event, 1);
    }
    pthread_mutex_lock(&front.device);
    front.counts.by_spare += (uint64_t)any;
    pthread_mutex_unlock(&front.device);
    if (any) return TICK_NS;
    return rested_ns < TICK_IDLE_NS ? rested_ns * 2 : rested_ns;
}

static void sleep_until_wanted(void) {
    pthread_mutex_lock(&reader.mutex);
    atomic_store(&reader.asleep, 1);
    /* Looked at again: who went away before `asleep` was seen wakes nobody. */
    if (!atomic_load(&reader.ending) && !atomic_load(&reader.away_since))
        pthread_cond_wait(&reader.wanted, &reader.mutex);
    atomic_store(&reader.asleep, 0);
    pthread_mutex_unlock(&reader.mutex);
}

static void *read_ahead(void *nothing) {
    int64_t rest_ns = TICK_NS;
    while (!atomic_load(&reader.ending)) {
        const uint64_t away = atomic_load(&reader.away_since), now = front_now_ns();
        if (away && now - away >= TICK_NS) {
            rest_ns = read_while_away(rest_ns);
        } else {
            rest_ns = TICK_NS;
            if (!away && now - atomic_load(&reader.latest) > IDLE_NS) {
                sleep_until_wanted();
                continue;
            }
        }
        rest(rest_ns);
    }
    return nothing;
}

int jfs_front_start(int hot, int spins, uint32_t chaos, int shadow) {
    block *const first = new_block();
    if (!first) return ENOMEM;
    free_block(first); /* from here on there is one wherever nothing is queued */
    if (hot && (reader.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) return errno;
    front.hot = hot;
    front.spins = spins;
    front.shadow = shadow;
    front.chaos = front.until_chaos = chaos;
    front.started = 1;
    const int failed = hot ? pthread_create(&reader.thread, NULL, read_ahead, NULL) : 0;
    if (failed) {
        front.started = front.hot = 0;
        close(reader.event);
    }
    return failed;
}

void jfs_front_stop(void) {
    if (!front.hot) return;
    pthread_mutex_lock(&reader.mutex);
    atomic_store(&reader.ending, 1);
    pthread_cond_signal(&reader.wanted);
    pthread_mutex_unlock(&reader.mutex);
    pthread_join(reader.thread, NULL);
    close(reader.event);
}

/* -- Python's side -- */

void jfs_front_revoke(int how) {
    if (how & JFS_REVOKE_STEP) front_keeping.at_hand = 0;
    pthread_mutex_lock(&front.device);
    /* P-7: Python is about to change something: nothing that was kept before is answered after it. */
    front.epoch++;
    front.counts.revokes++;
    front_return_parked();
    if (!(how & JFS_REVOKE_MESSAGES)) {
        front.revoked = front.epoch;
        front.kept = 0;
        __atomic_store_n(&front.state.live, 0, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&front.device);
}

jfs_front_state *jfs_front_state_of(void) { return &front.state; }

void jfs_front_counts_of(jfs_front_counts *out) {
    pthread_mutex_lock(&front.device);
    *out = front.counts;
    pthread_mutex_unlock(&front.device);
}
