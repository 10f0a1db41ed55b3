/* The watchdog: whoever asked something of the mount is answered, also where Python is gone or hangs, and the mount ends.
 *
 * Python beats, and the requests that libfuse has are noted when they are read and when they are answered. A thread of
 * its own looks every second. It takes no memory and calls nothing of Python; `front.device` is held for notes only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "front_internal.h"

enum {
    NOTED = 1 << 12, /* requests that are under way; more are ended by the kernel, when the process ends */
    NEAR = 64,
    PATH_BYTES = 4096,
    DEVICE_WAIT_S = 2, /* whoever hangs may do so with `front.device` */
    UNMOUNT_WAIT_MS = 3000
};

static const uint64_t look_ns = 1000000000, cpu_least_ns = 1000000;

static uint64_t noted[NOTED];

static struct {
    pthread_t thread;
    int runs;
    _Atomic int ending;
    _Atomic uint64_t beat_ns;
    uint64_t silent_max_ns;
    pid_t main_thread;
    char mountpoint[PATH_BYTES];
} watch;

void front_note_request(uint64_t unique) {
    for (uint32_t near = 0; near < NEAR; near++) {
        uint64_t *const place = &noted[((unique >> 1) + near) & (NOTED - 1)];
        if (*place) continue;
        *place = unique;
        return;
    }
}

void front_note_answer(uint64_t unique) {
    for (uint32_t near = 0; near < NEAR; near++) {
        uint64_t *const place = &noted[((unique >> 1) + near) & (NOTED - 1)];
        if (*place != unique) continue;
        *place = 0;
        return;
    }
}

void jfs_front_beat(void) { atomic_store_explicit(&watch.beat_ns, front_now_ns(), memory_order_relaxed); }

/* Whether a thread waits for a disk, which may take as long as it likes. */
static int waits_for_disk(void) {
    char name[64], text[512];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)watch.main_thread);
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    const char *const behind_name = strrchr(text, ')');
    return behind_name && behind_name[1] && behind_name[2] == 'D';
}

static uint64_t cpu_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void say(const char *text) {
    const ssize_t written = write(2, text, strlen(text));
    (void)written;
}

static void refuse_one(uint64_t unique) {
    const answer found = {.error = -EIO};
    front_write_answer(unique, &found);
}

/* Answers all that was read: what libfuse has, and what waits for it. */
static void refuse_all(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEVICE_WAIT_S;
    if (pthread_mutex_timedlock(&front.device, &until)) return; /* the kernel answers them when the process ends */
    for (uint32_t place = 0; place < NOTED; place++)
        if (noted[place]) refuse_one(noted[place]);
    front_refuse_queued(refuse_one);
    /* Held on: nothing is read any more that would not be answered. */
}

static int unmounter(void *mountpoint) {
    char *const arguments[] = {"fusermount3", "-u", "-z", "-q", "--", mountpoint, NULL};
    execvp(arguments[0], arguments);
    _exit(127);
}

/* The place is to be had for another mount at once. */
static void unmount(void) {
    static char stack[1 << 16] __attribute__((aligned(64)));
    if (!watch.mountpoint[0] || umount2(watch.mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW) == 0) return;
    const pid_t child = clone(unmounter, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, watch.mountpoint);
    for (int waited_ms = 0; child > 0 && waited_ms < UNMOUNT_WAIT_MS && waitpid(child, NULL, WNOHANG) == 0; waited_ms += 10) {
        const struct timespec moment = {0, 10000000};
        nanosleep(&moment, NULL);
    }
}

static void *look_after(void *nothing) {
    uint64_t beat_ns = 0, silent_since_ns = 0, used_ns = 0;
    const struct timespec pause = {(time_t)(look_ns / 1000000000), (long)(look_ns % 1000000000)};
    while (!atomic_load(&watch.ending)) {
        nanosleep(&pause, NULL);
        const uint64_t now = front_now_ns(), beat = atomic_load_explicit(&watch.beat_ns, memory_order_relaxed);
        const uint64_t used = cpu_ns();
        const int works = used - used_ns > cpu_least_ns + look_ns / 100;
        used_ns = used;
        if (beat != beat_ns || works || waits_for_disk()) {
            beat_ns = beat, silent_since_ns = now;
            continue;
        }
        if (now - silent_since_ns < watch.silent_max_ns || atomic_load(&watch.ending)) continue;
        say("journalfs: the mount hangs, without work and without waiting for the disk: all who wait for it get EIO, "
            "and it ends. What was answered before is durable; mount it again.\n");
        refuse_all();
        unmount();
        _exit(JFS_FRONT_HUNG);
    }
    return nothing;
}

int jfs_front_watch(const char *mountpoint, uint64_t silent_max_ns) {
    const size_t length = strlen(mountpoint);
    if (watch.runs || length >= sizeof watch.mountpoint) return watch.runs ? 0 : ENAMETOOLONG;
    memcpy(watch.mountpoint, mountpoint, length + 1);
    watch.silent_max_ns = silent_max_ns;
    watch.main_thread = (pid_t)syscall(SYS_gettid);
    atomic_store(&watch.ending, 0);
    jfs_front_beat();
    const int failed = pthread_create(&watch.thread, NULL, look_after, NULL);
    watch.runs = !failed;
    return failed;
}

/* Does not wait for the thread: it may sleep for a second, and does nothing more. */
void jfs_front_watch_no_more(void) { atomic_store(&watch.ending, 1); }
