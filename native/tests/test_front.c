/* The front, with a pair of sockets in the place of /dev/fuse: this plays the kernel at one end, and libfuse and Python
 * at the other.
 */
#define _GNU_SOURCE
#include <stdlib.h>

static int no_memory; /* while it is set, none is to be had */
static void *may_malloc(size_t bytes) { return no_memory ? NULL : malloc(bytes); }
static void *may_calloc(size_t count, size_t bytes) { return no_memory ? NULL : calloc(count, bytes); }
static void *may_realloc(void *old, size_t bytes) { return no_memory ? NULL : realloc(old, bytes); }
#define malloc may_malloc
#define calloc may_calloc
#define realloc may_realloc
#include "../front/answer.c"
#include "../front/front.c"
#include "../front/made.c"
#include "../front/publish.c"
#include "../front/tables.c"
#include "../front/watch.c"

#undef malloc
#undef calloc
#undef realloc

#include <sys/socket.h>

#include "check.h"

enum { FUZZED = 20000, STRESSED = 20000, CLOSING = 400 };

static int kernel;
static uint64_t last_unique;

static void begin(int hot) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    front.fd = pair[0];
    kernel = pair[1];
    struct timeval time = {20, 0};
    setsockopt(kernel, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    CHECK(jfs_front_start(hot, 0, 0, 0) == 0);
}

static uint64_t ask(uint32_t opcode, uint64_t nodeid, const void *arguments, size_t bytes) {
    uint8_t packet[512];
    last_unique += 2;
    struct fuse_in_header head = {
        .len = (uint32_t)(sizeof head + bytes), .opcode = opcode, .unique = last_unique, .nodeid = nodeid};
    memcpy(packet, &head, sizeof head);
    if (bytes) memcpy(packet + sizeof head, arguments, bytes);
    CHECK(send(kernel, packet, sizeof head + bytes, 0) == (ssize_t)(sizeof head + bytes));
    return last_unique;
}

static ssize_t reply(uint64_t unique, int32_t error, void *content, size_t bytes) {
    struct fuse_out_header head = {.len = (uint32_t)(sizeof head + bytes), .error = error, .unique = unique};
    struct iovec pieces[2] = {{&head, sizeof head}, {content, bytes}};
    return write_for_libfuse(front.fd, pieces, bytes ? 2 : 1, NULL);
}

/* What libfuse gets next; 0: the front answered, or has nothing. */
static size_t next(uint8_t *into) {
    const int found = jfs_front_wait(-1, 0, 0);
    jfs_front_hold();
    atomic_store(&reader.away_since, 0); /* however slow this is: nobody else reads what is asked next */
    if (found != JFS_FRONT_REQUEST) return 0;
    const ssize_t bytes = read_for_libfuse(front.fd, into, 1 << 20, NULL);
    return bytes < 0 ? 0 : (size_t)bytes;
}

static uint8_t got[1 << 20];

static struct fuse_out_header *answer_of(uint64_t unique) {
    CHECK(recv(kernel, got, sizeof got, 0) >= (ssize_t)sizeof(struct fuse_out_header));
    struct fuse_out_header *head = (void *)got;
    CHECK(head->unique == unique);
    return head;
}

/* Ask what Python has to answer, and have it answered and kept. */
static void teach(uint32_t opcode, uint64_t nodeid, const char *name, int32_t error, void *content, size_t bytes, int how) {
    static uint8_t request[1 << 20];
    struct fuse_getattr_in nothing = {0};
    const uint64_t unique = name ? ask(opcode, nodeid, name, strlen(name) + 1) : ask(opcode, nodeid, &nothing, sizeof nothing);
    CHECK(next(request) > 0);
    jfs_front_keep(how);
    CHECK(reply(unique, error, content, bytes) > 0);
    answer_of(unique);
}

static void test_answers_hold_until_something_is_revoked(void) {
    uint8_t request[512];
    struct fuse_attr_out attr = {.attr = {.ino = 7, .size = 1234}};
    struct fuse_getattr_in nothing = {0};
    teach(FUSE_GETATTR, 7, NULL, 0, &attr, sizeof attr, JFS_KEEP_ANSWER);
    uint64_t unique = ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
    CHECK(next(request) == 0);
    answer_of(unique);
    CHECK(memcmp(got + sizeof(struct fuse_out_header), &attr, sizeof attr) == 0);
    jfs_front_revoke(0);
    unique = ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
    CHECK(next(request) > 0);
    /* Revoked while it was being answered: not kept. */
    jfs_front_revoke(0);
    jfs_front_keep(JFS_KEEP_ANSWER);
    reply(unique, 0, &attr, sizeof attr);
    answer_of(unique);
    unique = ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
    CHECK(next(request) > 0);
    reply(unique, 0, &attr, sizeof attr);
    answer_of(unique);
}

/* What comes behind one is not copied, and answered all the same where its answer is known. */
static void test_requests_behind_a_large_one(void) {
    static uint8_t large[LARGE_BYTES + 1], request[LARGE_BYTES + 1];
    const struct fuse_getattr_in nothing = {0};
    struct fuse_attr_out attr = {.attr = {.ino = 8}};
    teach(FUSE_GETATTR, 8, NULL, 0, &attr, sizeof attr, JFS_KEEP_ANSWER);
    *(struct fuse_in_header *)(void *)large = (struct fuse_in_header){.opcode = FUSE_SETXATTR};
    CHECK(send(kernel, large, sizeof large, 0) == sizeof large && next(request) == sizeof large);
    const uint64_t unique = ask(FUSE_GETATTR, 8, &nothing, sizeof nothing);
    CHECK(next(request) == 0);
    answer_of(unique);
    CHECK(send(kernel, large, sizeof large, 0) == sizeof large && next(request) == sizeof large);
    CHECK(send(kernel, large, sizeof large, 0) == sizeof large);
    CHECK(jfs_front_wait(-1, 0, 0) == JFS_FRONT_REQUEST && !front_queue.first);
    jfs_front_hold();
    CHECK(read_for_libfuse(front.fd, request, sizeof request, NULL) == sizeof request);
    CHECK(read_for_libfuse(front.fd, request, sizeof request, NULL) == -1 && errno == EINTR);
    ask(FUSE_GETATTR, 9, &nothing, sizeof nothing);
    CHECK(next(request) > 0);
}

/* Who waited goes on while another's request is the one that was read last. */
static void test_nothing_is_kept_of_anothers_request(void) {
    uint8_t request[512];
    struct fuse_getattr_in nothing = {0};
    const uint64_t unique = ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
    CHECK(next(request) > 0);
    jfs_front_revoke(JFS_REVOKE_STEP);
    jfs_front_keep(JFS_KEEP_ANSWER);
    CHECK(front_keeping.keep_for == 0);
    reply(unique, -ENOENT, NULL, 0);
    answer_of(unique);
}

static void test_lookups_are_counted(void) {
    uint8_t request[512];
    struct fuse_entry_out entry = {.nodeid = 9, .attr = {.ino = 9}};
    jfs_front_revoke(0);
    teach(FUSE_LOOKUP, 1, "nine", 0, &entry, sizeof entry, JFS_KEEP_ANSWER);
    for (int i = 0; i < 3; i++) {
        const uint64_t unique = ask(FUSE_LOOKUP, 1, "nine", 5);
        CHECK(next(request) == 0);
        CHECK(answer_of(unique)->error == 0);
    }
    struct fuse_forget_in two = {.nlookup = 2};
    ask(FUSE_FORGET, 9, &two, sizeof two);
    CHECK(next(request) == 0); /* of those that the front counted */
    struct { struct fuse_batch_forget_in head; struct fuse_forget_one list[2]; } batch = {{.count = 2}, {{9, 2}, {77, 1}}};
    ask(FUSE_BATCH_FORGET, 0, &batch, sizeof batch);
    CHECK(next(request) > 0);
    const struct fuse_batch_forget_in *left = (const void *)(request + sizeof(struct fuse_in_header));
    const struct fuse_forget_one *list = (const void *)(left + 1);
    CHECK(left->count == 2 && list[0].nodeid == 9 && list[0].nlookup == 1 && list[1].nodeid == 77);
    /* Python drops the node now: its name is not given away any more. */
    const uint64_t unique = ask(FUSE_LOOKUP, 1, "nine", 5);
    CHECK(next(request) > 0);
    reply(unique, -ENOENT, NULL, 0);
    answer_of(unique);
}

static void test_plain_names_that_a_directory_lacks(void) {
    uint8_t request[512];
    jfs_front_revoke(0);
    teach(FUSE_LOOKUP, 3, "absent", -ENOENT, NULL, 0, JFS_KEEP_LACKS);
    static const struct { const char *name; int hot; } names[] = {
        {"absent", 1}, {"another", 1}, {".follow", 0}, {"_tail.jsonl", 0}, {"part-0001-1-0000000001.jsonl", 0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint64_t unique = ask(FUSE_LOOKUP, 3, names[i].name, strlen(names[i].name) + 1);
        CHECK((next(request) == 0) == names[i].hot);
        if (!names[i].hot) reply(unique, -ENOENT, NULL, 0);
        CHECK(answer_of(unique)->error == -ENOENT);
    }
}

static void test_nothing_overtakes_the_release_of_a_written_file(void) {
    uint8_t request[512];
    struct fuse_attr_out attr = {.attr = {.ino = 7}};
    struct fuse_getattr_in nothing = {0};
    struct fuse_release_in written = {.fh = 50}, read_only = {.fh = 51};
    jfs_front_revoke(0);
    jfs_front_opened(51);
    teach(FUSE_GETATTR, 7, NULL, 0, &attr, sizeof attr, JFS_KEEP_ANSWER);
    const uint64_t releases_read = ask(FUSE_RELEASE, 7, &read_only, sizeof read_only);
    CHECK(next(request) > 0);
    uint64_t unique = ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
    CHECK(next(request) == 0);
    answer_of(unique);
    const uint64_t releases = ask(FUSE_RELEASE, 7, &written, sizeof written);
    CHECK(next(request) > 0);
    unique = ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
    CHECK(next(request) > 0);
    reply(unique, 0, &attr, sizeof attr);
    reply(releases_read, 0, NULL, 0);
    reply(releases, 0, NULL, 0);
    unique = ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
    CHECK(next(request) == 0);
    for (int i = 0; i < 4; i++) CHECK(recv(kernel, got, sizeof got, 0) > 0);
    /* However many are closed at once. */
    uint64_t closing[CLOSING];
    for (int i = 0; i < CLOSING; i++) {
        closing[i] = ask(FUSE_RELEASE, 7, &written, sizeof written);
        CHECK(next(request) > 0);
    }
    for (int i = CLOSING; i--;) {
        reply(closing[i], 0, NULL, 0);
        answer_of(closing[i]);
        unique = ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
        CHECK((next(request) == 0) == (i == 0));
        if (i) reply(unique, 0, &attr, sizeof attr);
        answer_of(unique);
    }
}

static void test_content_of_open_files(void) {
    uint8_t request[512];
    jfs_front_opened(60);
    jfs_front_content(60, 4096, (const uint8_t *)"0123456789", 10, 1);
    static const struct { uint64_t offset; uint32_t size; int bytes; } reads[] = {
        {4096, 4, 4}, {4098, 100, 8}, {4106, 10, 0}, {9000, 10, 0}, {4095, 4, -1}, {0, 10, -1}};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        struct fuse_read_in in = {.fh = 60, .offset = reads[i].offset, .size = reads[i].size};
        const uint64_t unique = ask(FUSE_READ, 7, &in, sizeof in);
        CHECK((next(request) == 0) == (reads[i].bytes >= 0));
        if (reads[i].bytes < 0) continue;
        CHECK(answer_of(unique)->len == sizeof(struct fuse_out_header) + (size_t)reads[i].bytes);
        if (reads[i].bytes) CHECK(memcmp(got + sizeof(struct fuse_out_header), "0123456789" + reads[i].offset - 4096, (size_t)reads[i].bytes) == 0);
    }
    struct fuse_flush_in flush = {.fh = 60};
    const uint64_t unique = ask(FUSE_FLUSH, 7, &flush, sizeof flush);
    CHECK(next(request) == 0);
    CHECK(answer_of(unique)->error == 0);
}

static int is_hot(uint64_t unique) {
    uint8_t request[512];
    if (next(request) == 0) return 1;
    reply(unique, 0, NULL, 0);
    answer_of(unique);
    return 0;
}

static uint64_t opens(uint64_t nodeid, uint32_t flags) {
    const struct fuse_open_in open = {.flags = flags};
    return ask(FUSE_OPEN, nodeid, &open, sizeof open);
}

/* Opened by Python, which says that the next one may get the same. */
static void open_cold(uint64_t nodeid, uint64_t handle) {
    uint8_t request[512];
    struct fuse_open_out out = {.fh = handle, .open_flags = FOPEN_KEEP_CACHE};
    const uint64_t unique = opens(nodeid, O_RDONLY);
    CHECK(next(request) > 0);
    jfs_front_opened(handle);
    jfs_front_keep(JFS_KEEP_ANSWER);
    reply(unique, 0, &out, sizeof out);
    answer_of(unique);
    CHECK(((const struct fuse_open_out *)(const void *)(got + sizeof(struct fuse_out_header)))->open_flags & FOPEN_NOFLUSH);
}

static void open_hot(uint64_t nodeid, uint64_t handle) {
    const uint64_t unique = opens(nodeid, O_RDONLY | O_CLOEXEC);
    CHECK(is_hot(unique));
    CHECK(answer_of(unique)->error == 0);
    const struct fuse_open_out *out = (const void *)(got + sizeof(struct fuse_out_header));
    CHECK(out->fh == handle && out->open_flags == (FOPEN_KEEP_CACHE | FOPEN_NOFLUSH));
}

static int releases_hot(uint64_t handle) {
    const struct fuse_release_in release = {.fh = handle};
    const uint64_t unique = ask(FUSE_RELEASE, 7, &release, sizeof release);
    if (!is_hot(unique)) return 0;
    CHECK(answer_of(unique)->error == 0);
    return 1;
}

static void test_files_are_kept_open_for_who_opens_them_next(void) {
    uint64_t handles[2 * PARKED_MAX];
    jfs_front_revoke(0);
    open_cold(7, 70);
    CHECK(!is_hot(opens(7, O_RDONLY))); /* somebody has it */
    CHECK(releases_hot(70));
    CHECK(!is_hot(opens(8, O_RDONLY)));
    CHECK(!is_hot(opens(7, O_RDWR)));
    CHECK(!is_hot(opens(7, O_RDONLY | O_TRUNC)));
    open_hot(7, 70);
    CHECK(!is_hot(opens(7, O_RDONLY)));
    CHECK(releases_hot(70) && releases_hot(70)); /* the second one nobody sends */
    CHECK(jfs_front_returned(handles, 1) == 0);
    jfs_front_revoke(0);
    CHECK(jfs_front_returned(handles, 2) == 1 && handles[0] == 70 && !jfs_front_returned(handles, 2));
    CHECK(!is_hot(opens(7, O_RDONLY)));
    open_cold(7, 71);
    jfs_front_revoke(0);
    CHECK(!releases_hot(71)); /* it may be otherwise by now: Python closes it */
    for (uint64_t handle = 100; handle < 100 + 2 * PARKED_MAX; handle++) open_cold(handle, handle);
    for (uint64_t handle = 100; handle < 100 + 2 * PARKED_MAX; handle++) CHECK(releases_hot(handle));
    CHECK(jfs_front_returned(handles, 2 * PARKED_MAX) == PARKED_MAX && handles[0] == 99 + PARKED_MAX);
    open_hot(99 + 2 * PARKED_MAX, 99 + 2 * PARKED_MAX);
    jfs_front_revoke(0);
    CHECK(jfs_front_returned(handles, 2 * PARKED_MAX) == PARKED_MAX - 1);
    CHECK(!releases_hot(99 + 2 * PARKED_MAX));
}

/* Those that nobody answers here. */
static void forget_releases(void) {
    pthread_mutex_lock(&front.device);
    front.releases = 0;
    pthread_mutex_unlock(&front.device);
}

static void test_requests_of_any_shape_are_handed_on_or_answered(void) {
    static const uint32_t opcodes[] = {FUSE_LOOKUP, FUSE_FORGET, FUSE_GETATTR, FUSE_READ, FUSE_RELEASE, FUSE_OPEN,
                                       FUSE_FLUSH, FUSE_BATCH_FORGET, FUSE_INTERRUPT, FUSE_WRITE, FUSE_CREATE, 9999};
    uint8_t packet[300], request[512];
    uint64_t random = 1;
    for (int i = 0; i < FUZZED; i++) {
        for (size_t at = 0; at < sizeof packet; at++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            packet[at] = random >> 60 ? (uint8_t)(random >> 40) & 3 : (uint8_t)(random >> 40);
        }
        struct fuse_in_header *head = (void *)packet;
        head->opcode = opcodes[(random >> 33) % (sizeof opcodes / sizeof *opcodes)];
        const size_t bytes = 1 + (random >> 45) % sizeof packet;
        CHECK(send(kernel, packet, bytes, 0) == (ssize_t)bytes);
        const size_t handed = next(request);
        CHECK(handed <= sizeof packet); /* one that the other thread read before, it may be */
        if (handed >= sizeof *head && i % 2) {
            jfs_front_keep(1 + i % 2);
            reply(head->unique, i % 3 ? 0 : -ENOENT, packet, i % 5 ? i % 7 ? sizeof(struct fuse_entry_out) : sizeof(struct fuse_open_out) : 17);
        }
        if (i % 16 == 0) jfs_front_opened(packet[i % 32] & 3);
        uint64_t handles[4];
        jfs_front_returned(handles, 4);
        if (i % 64 == 0) jfs_front_revoke(0);
        while (recv(kernel, got, sizeof got, MSG_DONTWAIT) > 0) continue;
        forget_releases();
    }
}

/* The kernel asks; Python changes a number, and answers with it. No answer may show less than what the change before it
 * had made known. */
static _Atomic uint64_t known;
static _Atomic int over;

static void *play_kernel(void *nothing) {
    struct fuse_getattr_in arguments = {0};
    for (int i = 0; i < STRESSED; i++) {
        const uint64_t before = atomic_load(&known);
        const uint64_t unique = ask(FUSE_GETATTR, 5, &arguments, sizeof arguments);
        answer_of(unique);
        const struct fuse_attr_out *attr = (const void *)(got + sizeof(struct fuse_out_header));
        CHECK(attr->attr.size >= before);
    }
    atomic_store(&over, 1);
    return nothing;
}

static void drain(void) {
    uint8_t request[512];
    while (!jfs_front_is_quiet()) next(request);
    while (recv(kernel, got, sizeof got, MSG_DONTWAIT) > 0) continue;
}

static _Atomic uint64_t number;

/* As Python does it: what is kept is forgotten before anybody is told, and only where there may be something. */
static void change(void) {
    const uint64_t next_one = atomic_fetch_add(&number, 1) + 1;
    if (__atomic_load_n(&jfs_front_state_of()->live, __ATOMIC_SEQ_CST)) jfs_front_revoke(0);
    atomic_store(&known, next_one);
}

static void *change_elsewhere(void *nothing) {
    while (!atomic_load(&over)) {
        change();
        rest(20000);
    }
    return nothing;
}

static void test_nobody_sees_what_was_before_a_change(int elsewhere) {
    uint8_t request[512];
    pthread_t thread, changer;
    uint64_t random = 7, turns = 0;
    atomic_store(&over, 0);
    jfs_front_revoke(0);
    forget_releases();
    jfs_front_counts before, after;
    jfs_front_counts_of(&before);
    pthread_create(&thread, NULL, play_kernel, NULL);
    if (elsewhere) pthread_create(&changer, NULL, change_elsewhere, NULL);
    while (!atomic_load(&over)) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (jfs_front_wait(-1, 200000, 0) == JFS_FRONT_REQUEST &&
            read_for_libfuse(front.fd, request, sizeof request, NULL) > 0) {
            const struct fuse_in_header *in = (const void *)request;
            struct fuse_attr_out attr = {.attr = {.size = atomic_load(&number)}};
            jfs_front_keep(JFS_KEEP_ANSWER);
            reply(in->unique, 0, &attr, sizeof attr);
        }
        if (!elsewhere && ++turns % 4 == 0) change();
        if (random >> 56 == 0) rest(3000000); /* away: the other thread answers */
    }
    pthread_join(thread, NULL);
    if (elsewhere) pthread_join(changer, NULL);
    jfs_front_counts_of(&after);
    CHECK(after.getattr > before.getattr && after.by_spare > before.by_spare);
}

enum { PUBLISHED = 8000, BURST_MAX = 64, FILES_OPEN = 64, NODE = 5 };

static _Atomic uint64_t durable, cold; /* lines */
static uint64_t staged_lines, in_stage;
static int failing;

static int fake_stage(void *tail, void *way, const uint8_t *lines, uint64_t length) {
    (void)tail;
    CHECK(*(int *)way == 7 && lines[length - 1] == '\n');
    if (lines[0] == 'u') return 3;
    if (in_stage == BURST_MAX / 2) return 5;
    if (failing == 2) return 9;
    in_stage++;
    return 0;
}

static int32_t fake_flush(void *tail) {
    (void)tail;
    if (failing) return failing == 3 ? -1 : EBADF;
    staged_lines += in_stage;
    in_stage = 0;
    atomic_store(&durable, staged_lines);
    return 0;
}

static void lend_as(jfs_front_lent how) {
    pthread_mutex_lock(&front.device);
    front_lent = how;
    pthread_mutex_unlock(&front.device);
}

static uint64_t write_any(uint64_t handle, const char *line) {
    struct {
        struct fuse_write_in in;
        char line[16];
    } arguments = {.in = {.fh = handle, .size = (uint32_t)strlen(line)}};
    memcpy(arguments.line, line, strlen(line));
    return ask(FUSE_WRITE, handle, &arguments, sizeof arguments);
}

static uint64_t write_line(uint64_t handle) { return write_any(handle, "123456789012345\n"); }

static uint64_t ask_any(uint64_t random, uint64_t file) {
    const struct fuse_getattr_in nothing = {0};
    if (random % 8 == 0) return ask(FUSE_RENAME, NODE, &nothing, sizeof nothing);
    return random % 8 < 3 ? ask(FUSE_GETATTR, NODE, &nothing, sizeof nothing) : write_line(file);
}

/* Writers, readers, and who renames or removes. What a writer is told is durable, or Python took it, and a reader sees all
 * that was told before it asked. */
static void *write_lines(void *nothing) {
    uint64_t told = 0, random = 1;
    while (told < PUBLISHED) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint64_t burst = 1 + (random >> 33) % BURST_MAX, before = told;
        for (uint64_t i = 0; i < burst; i++) ask_any(random >> (i % 32), 1 + i % FILES_OPEN);
        for (uint64_t i = 0; i < burst; i++) {
            const ssize_t bytes = recv(kernel, got, sizeof got, 0);
            CHECK(bytes >= (ssize_t)sizeof(struct fuse_out_header) && ((struct fuse_out_header *)got)->error == 0);
            const size_t content = (size_t)bytes - sizeof(struct fuse_out_header);
            const struct fuse_attr_out *attr = (const void *)(got + sizeof(struct fuse_out_header));
            if (content == sizeof *attr) CHECK(attr->attr.size >= before);
            if (content == sizeof(struct fuse_write_out)) CHECK(++told <= atomic_load(&durable) + atomic_load(&cold));
        }
    }
    atomic_store(&over, 1);
    return nothing;
}

static void answer_as_python(const struct fuse_in_header *in) {
    struct fuse_write_out out = {.size = 16};
    if (in->opcode == FUSE_GETATTR) {
        struct fuse_attr_out attr = {.attr = {.size = atomic_load(&durable) + atomic_load(&cold)}};
        jfs_front_keep(JFS_KEEP_ANSWER);
        CHECK(reply(in->unique, 0, &attr, sizeof attr) > 0);
        return;
    }
    jfs_front_revoke(0);
    atomic_fetch_add(&cold, in->opcode == FUSE_WRITE);
    CHECK(reply(in->unique, 0, &out, in->opcode == FUSE_WRITE ? sizeof out : 0) > 0);
}

static uint64_t take_touched(void) {
    uint64_t lines = 0;
    for (jfs_front_file *file = front_lent.touched; file; file = file->touched) {
        CHECK(file->taken == 16 * file->lines);
        lines += file->lines;
        file->taken = file->lines = 0;
    }
    front_lent.touched = NULL;
    return lines;
}

/* The end of the journal is Python's, and lent while it waits; now and then it is away, and another thread reads. */
static void test_lines_are_durable_when_their_writes_are_answered(void) {
    static int way = 7;
    static jfs_front_file rows[FILES_OPEN], other = {.handle = 1 + FILES};
    static uint8_t request[1 << 20];
    pthread_t client;
    uint64_t taken = 0, turn = 0;
    for (int i = 0; i < FILES_OPEN; i++) {
        rows[i] = (jfs_front_file){.handle = (uint64_t)i + 1, .way = &way, .appends = 1};
        jfs_front_publishes(&rows[i]);
    }
    lend_as((jfs_front_lent){.held = 1, .stage = fake_stage, .flush = fake_flush, .full = 5, .unfit = 3});
    atomic_store(&over, 0);
    CHECK(pthread_create(&client, NULL, write_lines, NULL) == 0);
    while (!atomic_load(&over)) {
        front_lent.tail = ++turn % 8 ? &way : NULL;
        const int found = jfs_front_wait(-1, 1000000, 0);
        if (turn % 128 == 1) rest(3000000); /* as who waits for the interpreter's lock: lines are published meanwhile */
        jfs_front_hold();
        taken += take_touched();
        CHECK(taken == atomic_load(&durable));
        if (found == JFS_FRONT_REQUEST) {
            CHECK(read_for_libfuse(front.fd, request, sizeof request, NULL) > 0);
            answer_as_python((void *)request);
        }
        jfs_front_publishes(&other); /* while another thread looks for files */
        if (turn % 64 == 0) rest(3000000);
        jfs_front_unpublishes(&other);
    }
    pthread_join(client, NULL);
    CHECK(taken > 0 && atomic_load(&cold) > 0);
    failing = 1;
    front_lent.tail = &way;
    uint64_t unique[2] = {write_line(1), write_line(2)};
    CHECK(next(request) == 0);
    for (int i = 0; i < 2; i++) CHECK(answer_of(unique[i])->error == -EIO && rows[i].failed);
    CHECK(front_lent.touched == &rows[1] && take_touched() == 0);
    write_line(1);
    CHECK(next(request) > 0);
    failing = 2; /* what it was staged to is not known any more */
    unique[0] = write_line(3);
    CHECK(next(request) == 0 && answer_of(unique[0])->error == -EIO && rows[2].failed);
    CHECK(front_lent.touched == &rows[2] && take_touched() == 0);
    failing = 3; /* Python goes on with it, and answers */
    unique[0] = write_line(6);
    CHECK(jfs_front_wait(-1, 1000000000, 0) == JFS_FRONT_TRIO && front_lent.defers);
    jfs_front_hold();
    CHECK(take_touched() == 1 && front_lent.answered < front_lent.staged);
    jfs_front_settle(1, 0);
    CHECK(answer_of(unique[0])->error == 0 && front_lent.answered == front_lent.staged);
    failing = front_lent.defers = front_lent.tells = 0;
    unique[0] = write_line(5), write_any(4, "unfit\n"), write_line(4); /* which does not overtake the one before it */
    CHECK(jfs_front_wait(-1, 1000000000, 0) == JFS_FRONT_REQUEST);
    jfs_front_hold();
    CHECK(answer_of(unique[0])->error == 0);
    CHECK(rows[4].lines == 1 && take_touched() == 1 && front_queue.count == 2);
    CHECK(next(request) > 0);
    rows[3].way = NULL; /* as Python does before it begins */
    CHECK(next(request) > 0);
    front_lent.tail = NULL;
}

/* -- files that are made -- */

static uint64_t asks_create(const char *name, uint32_t flags) {
    struct {
        struct fuse_create_in in;
        char name[32];
    } arguments = {.in = {.flags = flags}};
    strcpy(arguments.name, name);
    return ask(FUSE_CREATE, 3, &arguments, sizeof arguments.in + strlen(name) + 1);
}

static int make_way = 7;

/* Made by Python, which says that C may go on so. */
static void create_cold(const char *name) {
    uint8_t request[512];
    created answers = {.entry = {.nodeid = 90, .attr = {.ino = 90, .mode = S_IFREG}, .attr_valid = 1}, .out = {.fh = 90}};
    const uint64_t unique = asks_create(name, O_WRONLY | O_CREAT);
    CHECK(next(request) > 0);
    jfs_front_revoke(0);
    jfs_front_makes(&make_way);
    reply(unique, 0, &answers, sizeof answers);
    answer_of(unique);
}

static created create_hot(const char *name) {
    const uint64_t unique = asks_create(name, O_WRONLY | O_CREAT | O_APPEND);
    CHECK(is_hot(unique) && answer_of(unique)->error == 0);
    created answers;
    memcpy(&answers, got + sizeof(struct fuse_out_header), sizeof answers);
    CHECK(answers.entry.nodeid == answers.entry.attr.ino && answers.entry.nodeid > 90 && answers.out.fh > 90);
    return answers;
}

static int flushes_hot(uint64_t handle) {
    const struct fuse_flush_in flush = {.fh = handle};
    const uint64_t unique = ask(FUSE_FLUSH, 7, &flush, sizeof flush);
    return is_hot(unique) && answer_of(unique)->error == 0;
}

static uint64_t size_hot(uint64_t nodeid) {
    const struct fuse_getattr_in nothing = {0};
    const uint64_t unique = ask(FUSE_GETATTR, nodeid, &nothing, sizeof nothing);
    CHECK(is_hot(unique) && answer_of(unique)->error == 0);
    return ((const struct fuse_attr_out *)(const void *)(got + sizeof(struct fuse_out_header)))->attr.size;
}

static int forgets_hot(uint64_t nodeid) {
    const struct fuse_forget_in once = {.nlookup = 1};
    uint8_t request[512];
    ask(FUSE_FORGET, nodeid, &once, sizeof once);
    return next(request) == 0;
}

/* Python makes it, since: */
static void makes_cold(uint32_t flags, uint64_t *reason) {
    const uint64_t before = *reason;
    CHECK(!is_hot(asks_create("in.txt", flags)) && *reason == before + 1);
}

static int stage_as_python_comes(void *tail, void *way, const uint8_t *lines, uint64_t length) {
    atomic_store(&reader.away_since, 0);
    return fake_stage(tail, way, lines, length);
}

/* Whoever else reads while Python begins to wait wakes it for what was gathered, and for what is its own to flush. */
static void test_python_is_woken_for_what_was_read_as_it_came(void) {
    for (int defers = 0; defers < 2; defers++) {
        uint8_t request[512];
        eventfd_t rung;
        jfs_front_file file = {.handle = 70, .way = &make_way, .appends = 1};
        struct pollfd rings = {reader.event, POLLIN, 0};
        lend_as((jfs_front_lent){.stage = stage_as_python_comes, .flush = fake_flush, .full = 5, .unfit = 3, .tail = &make_way,
                                 .defers = defers, .tells = defers, .staged = staged_seen});
        jfs_front_publishes(&file);
        const uint64_t unique = write_line(70);
        const struct fuse_getattr_in nothing = {0};
        if (!defers) ask(FUSE_RENAME, NODE, &nothing, sizeof nothing);
        atomic_store(&reader.away_since, 1);
        wake_reader();
        CHECK(poll(&rings, 1, 20000) == 1);
        if (defers) jfs_front_settle(1, 0);
        CHECK(answer_of(unique)->error == 0);
        CHECK(jfs_front_wait(-1, 0, 0) == (defers ? JFS_FRONT_TRIO : JFS_FRONT_REQUEST));
        atomic_store(&reader.away_since, 0);
        jfs_front_hold();
        if (!defers) CHECK(read_for_libfuse(front.fd, request, sizeof request, NULL) > 0 && eventfd_read(reader.event, &rung) == 0);
        jfs_front_unpublishes(&file);
    }
}

static void lend_to_make(void) {
    lend_as((jfs_front_lent){.held = 1, .stage = fake_stage, .flush = fake_flush, .full = 5, .unfit = 3, .tail = &make_way});
}

static void test_files_are_made_written_and_closed(void) {
    lend_to_make();
    teach(FUSE_LOOKUP, 3, "in.txt", -ENOENT, NULL, 0, JFS_KEEP_ANSWER | JFS_KEEP_LASTS);
    makes_cold(O_WRONLY, &front.counts.unknown);
    create_cold("in.txt");
    teach(FUSE_LOOKUP, 3, "in.txt", -ENOENT, NULL, 0, JFS_KEEP_ANSWER | JFS_KEEP_LASTS);
    makes_cold(O_RDWR, &front.counts.flags);
    makes_cold(O_WRONLY | O_NONBLOCK, &front.counts.flags);
    CHECK(!is_hot(asks_create("other.txt", O_WRONLY)));
    for (int i = 0; i < 3; i++) {
        uint64_t unique = ask(FUSE_LOOKUP, 3, "in.txt", 7);
        CHECK(is_hot(unique) && answer_of(unique)->error == -ENOENT); /* published lines take no name away */
        jfs_front_revoke(1);
        const created made = create_hot("in.txt");
        CHECK(!is_hot(ask(FUSE_LOOKUP, 3, "in.txt", 7)) && front_lent.wanted); /* for it is open, and Python has to say so */
        front_lent.wanted = 0;
        CHECK(flushes_hot(made.out.fh) && size_hot(made.entry.nodeid) == 0);
        unique = write_line(made.out.fh);
        CHECK(is_hot(unique) && answer_of(unique)->error == 0);
        CHECK(flushes_hot(made.out.fh) && size_hot(made.entry.nodeid) == 16);
        CHECK(i == 0 ? forgets_hot(made.entry.nodeid) && releases_hot(made.out.fh)
                     : releases_hot(made.out.fh) && forgets_hot(made.entry.nodeid));
        CHECK(front_lent.made == 0 && !made_of(made.entry.nodeid) && jfs_front_adopt() == NULL);
    }
}

/* Python takes one over, with what was written, and closes it; another is closed here, and it hears of that. */
static void test_files_that_python_takes_over(void) {
    lend_to_make();
    for (int here = 0; here < 2; here++) {
        const created made = create_hot("in.txt");
        const uint64_t unique = write_line(made.out.fh);
        CHECK(is_hot(unique) && answer_of(unique)->error == 0);
        jfs_front_made *adopted = jfs_front_adopt();
        CHECK(adopted->file.bytes == 16 && adopted->file.lines == 1 && adopted->lookups == 1 && adopted->parent == 3);
        CHECK(strcmp(adopted->name, "in.txt") == 0 && adopted->flags == (O_WRONLY | O_CREAT | O_APPEND));
        CHECK(adopted->nodeid == made.entry.nodeid && jfs_front_adopt() == NULL && !forgets_hot(made.entry.nodeid));
        CHECK(!is_hot(ask(FUSE_LOOKUP, 3, "in.txt", 7)));
        adopted->file.way = here ? &make_way : NULL;
        CHECK(flushes_hot(made.out.fh) == here && releases_hot(made.out.fh) == here);
        CHECK(front_lent.closed == (here ? &adopted->file : NULL));
        jfs_front_unpublishes(&adopted->file);
        front_lent.closed = NULL;
    }
    forget_releases();
}

/* No more than so many at a time, and none while Python runs or where something was revoked. */
static void test_files_that_python_has_to_make(void) {
    lend_to_make();
    created all[OPEN_MAX];
    for (int i = 0; i < OPEN_MAX; i++) all[i] = create_hot("in.txt");
    makes_cold(O_WRONLY, &front.counts.crowded);
    failing = 1;
    const uint64_t fails = write_line(all[1].out.fh);
    CHECK(is_hot(fails) && answer_of(fails)->error == -EIO && front_lent.wanted);
    failing = 0;
    CHECK(!flushes_hot(all[1].out.fh) && !releases_hot(all[1].out.fh));
    in_stage = 0;
    for (int i = 0; i < OPEN_MAX; i++) CHECK(i == 1 || (releases_hot(all[i].out.fh) && forgets_hot(all[i].entry.nodeid)));
    jfs_front_made *failed = jfs_front_adopt();
    CHECK(failed->file.failed && jfs_front_adopt() == NULL && !front_lent.wanted);
    jfs_front_unpublishes(&failed->file);
    front_lent.tail = NULL;
    makes_cold(O_WRONLY, &front.counts.unlent);
    front_lent.tail = &make_way;
    front.releases = 1;
    makes_cold(O_WRONLY, &front.counts.releasing);
    front.releases = 0;
    const uint64_t held = front.counts.held;
    struct fuse_in_header in = {.opcode = FUSE_CREATE, .nodeid = 3};
    struct { struct fuse_create_in in; char name[7]; } by_spare = {{.flags = O_WRONLY}, "in.txt"};
    CHECK(!front_create(&in, (const void *)&by_spare, sizeof by_spare.in + 7) && front.counts.held == held + 1);
    jfs_front_revoke(0);
    makes_cold(O_WRONLY, &front.counts.revoked);
    create_cold("in.txt");
    jfs_front_makes_no_more();
    CHECK(!is_hot(asks_create("in.txt", O_WRONLY)));
    create_cold("in.txt"); /* and requests of any shape may ask for it */
    forget_releases();
}

/* Without memory nothing is lost, nor answered without being counted: Python answers. */
static void test_want_of_memory(void) {
    uint8_t request[512];
    uint64_t handles[2];
    struct fuse_entry_out entry = {.nodeid = 19, .attr = {.ino = 19}};
    struct fuse_release_in written = {.fh = 50};
    jfs_front_revoke(0);
    teach(FUSE_LOOKUP, 1, "nineteen", 0, &entry, sizeof entry, JFS_KEEP_ANSWER);
    open_cold(7, 72);
    CHECK(releases_hot(72));
    no_memory = 1;
    CHECK(!is_hot(ask(FUSE_LOOKUP, 1, "nineteen", 9)));
    jfs_front_revoke(0);
    CHECK(jfs_front_returned(handles, 2) == 1 && handles[0] == 72);
    /* There are blocks for as many as are kept, and the rest waits to be read. */
    const struct fuse_getattr_in nothing = {0};
    for (int i = 0; i <= SPARES_MAX; i++) ask(FUSE_GETATTR, 7, &nothing, sizeof nothing);
    while (read_one() == READ_QUEUED) continue;
    CHECK(front_queue.count > 0 && front_queue.count <= SPARES_MAX && !front_queue.spare);
    for (int i = 0; i <= SPARES_MAX; i++) {
        CHECK(next(request) > 0);
        CHECK(((struct fuse_in_header *)(void *)request)->opcode == FUSE_GETATTR);
    }
    uint32_t closed = 0;
    for (front.releases = 0; !front.blind; closed++) {
        ask(FUSE_RELEASE, 7, &written, sizeof written);
        CHECK(next(request) > 0 && closed <= releases_room);
    }
    no_memory = 0;
    forget_releases();
    teach(FUSE_LOOKUP, 1, "nineteen", 0, &entry, sizeof entry, JFS_KEEP_ANSWER);
    CHECK(!is_hot(ask(FUSE_LOOKUP, 1, "nineteen", 9))); /* a release was lost: nobody knows when it is over */
    front.blind = 0;
}

int main(void) {
    begin(1);
    test_answers_hold_until_something_is_revoked();
    test_requests_behind_a_large_one();
    test_nothing_is_kept_of_anothers_request();
    test_lookups_are_counted();
    test_plain_names_that_a_directory_lacks();
    test_nothing_overtakes_the_release_of_a_written_file();
    test_content_of_open_files();
    test_files_are_kept_open_for_who_opens_them_next();
    drain();
    test_want_of_memory();
    drain();
    test_lines_are_durable_when_their_writes_are_answered();
    drain();
    test_files_are_made_written_and_closed();
    test_python_is_woken_for_what_was_read_as_it_came();
    test_files_that_python_takes_over();
    test_files_that_python_has_to_make();
    test_requests_of_any_shape_are_handed_on_or_answered();
    drain();
    test_nobody_sees_what_was_before_a_change(0);
    test_nobody_sees_what_was_before_a_change(1);
    jfs_front_stop();
    return 0;
}
