/* Fuzz target: requests of /dev/fuse, as no kernel sends them, and what Python does between, in any order.
 *
 * Input: steps. A byte says what; below REQUESTS it is a request: its opcode is the byte's remainder, then follow the node,
 * the length of what comes behind the header, up to 127, or a multiple of it from 128 on, what is wrong with it, and its
 * bytes, which run out as zeros. Each request is answered once, handed on once, or swallowed where nobody waits for it.
 */
#define _GNU_SOURCE
#include "../front/answer.c"
#include "../front/front.c"
#include "../front/made.c"
#include "../front/publish.c"
#include "../front/tables.c"
#include "../front/watch.c"

#include <sys/socket.h>

#include "fuzz.h"

enum { REQUESTS = 192, BODY_MAX = 1 << 17, FILES_OPEN = 4, STEPS_MAX = 512, WAYS_OPEN = 7 };

static const uint32_t opcodes[] = {
    FUSE_LOOKUP, FUSE_FORGET, FUSE_GETATTR, FUSE_READ, FUSE_RELEASE, FUSE_OPEN, FUSE_FLUSH, FUSE_BATCH_FORGET,
    FUSE_INTERRUPT, FUSE_WRITE, FUSE_CREATE, FUSE_RENAME, FUSE_SETATTR, FUSE_WRITE, FUSE_CREATE, 9999};
static const uint64_t nodes_asked[] = {1, 3, 7, 0, UINT64_MAX, (1ull << 60) + 1, (1ull << 60) + 2, 9};

typedef struct {
    const uint8_t *at, *end;
} input;

static int kernel = -1;
static uint64_t unique_last;
static uint64_t staged_writes;
static int failing;
static jfs_front_file rows[FILES_OPEN];
static int a_way = WAYS_OPEN;

static uint8_t take(input *from) { return from->at < from->end ? *from->at++ : 0; }

static int fuzz_stage(void *tail, void *way, const uint8_t *lines, uint64_t length) {
    uint64_t sum = 0;
    FUZZ_CHECK(tail == &a_way && *(int *)way == WAYS_OPEN && !front_lent.held);
    for (uint64_t i = 0; i < length; i++) sum += lines[i]; /* all of it is there */
    if (length == 0 || sum % 5 == 0) return 3;
    if (staged_writes > 2) return 5;
    staged_writes++;
    return sum % 31 == 7 ? 9 : 0;
}

static int32_t fuzz_flush(void *tail) {
    (void)tail;
    FUZZ_CHECK(!front_lent.held);
    staged_writes = 0;
    return failing ? EIO : 0;
}

/* How many of them say what is not known, or anything twice. */
static uint32_t answers_to(uint64_t unique) {
    static uint8_t got[1 << 18];
    uint32_t count = 0;
    ssize_t bytes;
    while ((bytes = recv(kernel, got, sizeof got, MSG_DONTWAIT)) > 0) {
        const struct fuse_out_header *head = (const void *)got;
        FUZZ_CHECK((size_t)bytes >= sizeof *head && head->len == (size_t)bytes);
        FUZZ_CHECK(!head->error || (size_t)bytes == sizeof *head);
        count += head->unique == unique;
    }
    return count;
}

static void reply_as(const struct fuse_in_header *in, input *from) {
    static const size_t sizes[] = {0, sizeof(struct fuse_attr_out), sizeof(struct fuse_entry_out), sizeof(struct fuse_open_out),
                                   sizeof(created), 17};
    const uint8_t how = take(from);
    uint8_t content[sizeof(created)] = {0};
    ((struct fuse_entry_out *)(void *)content)->nodeid = nodes_asked[how >> 5];
    struct fuse_out_header head = {.error = how & 1 ? -ENOENT : 0, .unique = in->unique};
    const size_t size = head.error ? 0 : sizes[(how >> 1 & 7) % (sizeof sizes / sizeof *sizes)];
    head.len = (uint32_t)(sizeof head + size);
    struct iovec pieces[2] = {{&head, sizeof head}, {content, size}};
    if (take(from) & 1) jfs_front_keep(1 + how % 7);
    if (in->opcode == FUSE_CREATE && how & 16) {
        jfs_front_revoke(0);
        jfs_front_makes(&a_way);
    }
    write_for_libfuse(front.fd, pieces, size ? 2 : 1, NULL);
}

static void adopt_all(void) {
    for (jfs_front_made *made; (made = jfs_front_adopt()) != NULL;) {
        FUZZ_CHECK(made->lookups <= 1 && made->file.handle && strlen(made->name) < JFS_FRONT_NAME_BYTES);
        jfs_front_unpublishes(&made->file);
    }
}

static void run(void) {
    jfs_front_hold();
    front_lent.touched = NULL;
    front_lent.closed = NULL;
    for (int i = 0; i < FILES_OPEN; i++) rows[i].failed = 0, rows[i].taken = 0;
    if (front_lent.wanted) adopt_all();
}

static void ask(uint8_t step, input *from) {
    static uint8_t packet[sizeof(struct fuse_in_header) + BODY_MAX], request[sizeof packet];
    struct fuse_in_header *head = (void *)packet;
    const uint32_t opcode = opcodes[step % (sizeof opcodes / sizeof *opcodes)];
    const uint64_t node = nodes_asked[take(from) % 8];
    const uint8_t length = take(from), wrong = take(from);
    const size_t body = length < 128 ? length : (size_t)(length - 127) * 1021, given_bytes = (size_t)(from->end - from->at);
    memset(packet, 0, sizeof *head + body);
    if (body) memcpy(head + 1, from->at, body < given_bytes ? body : given_bytes);
    from->at += body < given_bytes ? body : given_bytes;
    *head = (struct fuse_in_header){.len = (uint32_t)(sizeof *head + body), .opcode = opcode, .unique = unique_last += 2, .nodeid = node};
    if (wrong & 1) head->len = wrong * 0x01010101u;
    if (wrong & 2) head->uid = wrong;
    const size_t sent = wrong & 4 ? wrong % (sizeof *head + body) + 1 : sizeof *head + body;
    if (send(kernel, packet, sent, MSG_DONTWAIT) < 0) return;
    const int found = jfs_front_wait(-1, 0, 0);
    run();
    const ssize_t bytes = found == JFS_FRONT_REQUEST ? read_for_libfuse(front.fd, request, sizeof request, NULL) : 0;
    const int nobody_waits = opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT;
    FUZZ_CHECK(answers_to(unique_last) + (bytes > 0) == 1 || (nobody_waits && bytes <= 0));
    FUZZ_CHECK(bytes <= 0 || (size_t)bytes == sent);
    if (bytes >= (ssize_t)sizeof *head) reply_as((void *)request, from);
    answers_to(0);
}

static void do_as_python(uint8_t step, input *from) {
    uint64_t handles[2];
    const uint8_t which = take(from);
    switch (step % 8) {
    case 0:
        jfs_front_revoke(which & 1);
        adopt_all();
        break;
    case 1:
        jfs_front_returned(handles, 1 + which % 2);
        break;
    case 2:
        if (!front_is_opened(which % 8)) jfs_front_opened(which % 8);
        break;
    case 3:
        jfs_front_content(which % 8, which & 16 ? UINT64_MAX - 9 : which, from->at, (uint64_t)(from->end - from->at), which & 8);
        break;
    case 4:
        front_lent.tail = which & 1 ? &a_way : NULL;
        break;
    case 5:
        rows[which % FILES_OPEN].way = which & 16 ? &a_way : NULL;
        rows[which % FILES_OPEN].appends = which >> 5 & 1;
        break;
    case 6:
        failing = which % 4 == 0;
        break;
    default:
        adopt_all();
        jfs_front_makes_no_more();
    }
}

static void begin(void) {
    int pair[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    FUZZ_CHECK(fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0);
    const int room = 1 << 20;
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    front.fd = pair[0];
    kernel = pair[1];
    front.hot = front.started = 1;
    front_lent = (jfs_front_lent){.held = 1, .stage = fuzz_stage, .flush = fuzz_flush, .full = 5, .unfit = 3, .tail = &a_way};
    for (int i = 0; i < FILES_OPEN; i++) {
        rows[i] = (jfs_front_file){.handle = (uint64_t)i + 8, .way = &a_way, .appends = 1};
        jfs_front_publishes(&rows[i]);
    }
}

/* As little as can be is left of the input before. */
static void forget_all(void) {
    uint64_t handles[64];
    adopt_all();
    jfs_front_revoke(0);
    while (jfs_front_returned(handles, 64)) continue;
    for (uint64_t handle = 0; handle < 8; handle++) front_released(handle);
    front.releases = 0;
    failing = 0;
    front_lent.tail = &a_way;
    for (int i = 0; i < FILES_OPEN; i++) rows[i].way = &a_way, rows[i].bytes = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input from = {data, data + size};
    if (kernel < 0) begin();
    for (int step = 0; from.at < from.end && step < STEPS_MAX; step++) {
        const uint8_t what = take(&from);
        if (what < REQUESTS)
            ask(what, &from);
        else
            do_as_python(what, &from);
    }
    forget_all();
    return 0;
}
