/* Mapped files that shrink under their readers. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "jfs_guard.h"
#include "jfs_scan.h"

enum { FILE_BYTES = 3 * 65536 };

static int make_file(void) {
    const int fd = memfd_create("mapped", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, FILE_BYTES) == 0);
    return fd;
}

static void a_truncated_file_is_torn(void) {
    const int fd = make_file();
    const uint8_t *bytes;
    uint8_t copied[4096];
    jfs_scan_options options = {.start_offset = 16, .stop_offset = FILE_BYTES, .rid = 1, .version = 2};
    jfs_scan scan;
    CHECK_EQ(jfs_map(fd, FILE_BYTES, &bytes), JFS_OK);
    CHECK_EQ(jfs_copy(copied, bytes + FILE_BYTES - 4096, 4096), JFS_OK);
    CHECK(ftruncate(fd, 65536) == 0);
    for (int again = 0; again < 3; again++) {
        CHECK_EQ(jfs_copy(copied, bytes + FILE_BYTES - 4096, 4096), JFS_TORN);
        CHECK_EQ(jfs_scan_journal(bytes, FILE_BYTES, &options, &scan), JFS_TORN);
        jfs_scan_free(&scan);
    }
    CHECK_EQ(jfs_copy(copied, bytes, 4096), JFS_OK);
    jfs_unmap(bytes, FILE_BYTES);
    close(fd);
}

typedef struct {
    const uint8_t *bytes;
    jfs_status inner;
} nested;

static jfs_status outer_body(void *context) {
    nested *const job = context;
    uint8_t copied[16];
    job->inner = jfs_copy(copied, job->bytes + FILE_BYTES - 16, 16);
    memcpy(copied, job->bytes + FILE_BYTES - 16, 16); /* faults under the outer guard */
    return JFS_OK;
}

static void guards_nest(void) {
    const int fd = make_file();
    nested job = {NULL, JFS_OK};
    CHECK_EQ(jfs_map(fd, FILE_BYTES, &job.bytes), JFS_OK);
    CHECK(ftruncate(fd, 0) == 0);
    CHECK_EQ(jfs_guarded(outer_body, &job), JFS_TORN);
    CHECK_EQ(job.inner, JFS_TORN);
    jfs_unmap(job.bytes, FILE_BYTES);
    close(fd);
}

static void exit_42(int number) {
    (void)number;
    _exit(42);
}

/* A fault that is none of ours goes to whoever handled it before; if that raises it again, the process ends. */
static void other_faults_are_handed_on(void) {
    for (int handled = 0; handled <= 1; handled++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            const int fd = make_file();
            const uint8_t *bytes;
            uint8_t copied[16];
            signal(SIGBUS, handled ? exit_42 : SIG_DFL);
            if (jfs_map(fd, FILE_BYTES, &bytes) != JFS_OK || jfs_copy(copied, bytes, 16) != JFS_OK) _exit(1);
            if (ftruncate(fd, 0) != 0) _exit(1);
            _exit(((const volatile uint8_t *)bytes)[FILE_BYTES - 1]);
        }
        CHECK(child > 0);
        CHECK(waitpid(child, &status, 0) == child);
        if (handled) {
            CHECK(WIFEXITED(status));
            CHECK_EQ(WEXITSTATUS(status), 42);
        } else {
            CHECK(WIFSIGNALED(status));
            CHECK_EQ(WTERMSIG(status), SIGBUS);
        }
    }
}

static void an_empty_file_maps_to_nothing(void) {
    const int fd = make_file();
    const uint8_t *bytes;
    CHECK_EQ(jfs_map(fd, 0, &bytes), JFS_OK);
    CHECK(bytes == NULL);
    CHECK_EQ(jfs_copy(NULL, NULL, 0), JFS_OK);
    jfs_unmap(NULL, 0);
    CHECK_EQ(jfs_map(-1, 4096, &bytes), JFS_NO_MEMORY);
    close(fd);
}

int main(void) {
    RUN(a_truncated_file_is_torn);
    RUN(guards_nest);
    RUN(other_faults_are_handed_on);
    RUN(an_empty_file_maps_to_nothing);
    return 0;
}
