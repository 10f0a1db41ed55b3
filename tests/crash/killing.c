/* Ends the process that it is loaded into (LD_PRELOAD) right before the n-th change to a file: KILL_BEFORE. Without that
 * the number of changes is written to the file KILL_COUNT when the process ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long changes;

static void change(void)
{
    const char *at = getenv("KILL_BEFORE");
    if (__atomic_add_fetch(&changes, 1, __ATOMIC_SEQ_CST) == (at == NULL ? -1 : atol(at)))
        kill(getpid(), SIGKILL);
}

static void change_of(int fd)
{
    struct stat found;
    if (fstat(fd, &found) == 0 && (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)))
        change();
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("KILL_COUNT");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file != NULL) {
        fprintf(file, "%ld", changes);
        fclose(file);
    }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_FD(type, name, parameters, given) \
    type name parameters { change_of(fd); return REAL(name) given; }
#define ON_PATH(type, name, parameters, given) \
    type name parameters { change(); return REAL(name) given; }

ON_FD(ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count))
ON_FD(ssize_t, pwrite, (int fd, const void *bytes, size_t count, off_t at), (fd, bytes, count, at))
ON_FD(ssize_t, pwrite64, (int fd, const void *bytes, size_t count, off64_t at), (fd, bytes, count, at))
ON_FD(int, fsync, (int fd), (fd))
ON_FD(int, fdatasync, (int fd), (fd))
ON_FD(int, ftruncate, (int fd, off_t size), (fd, size))
ON_FD(int, ftruncate64, (int fd, off64_t size), (fd, size))
ON_PATH(int, rename, (const char *from, const char *to), (from, to))
ON_PATH(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
ON_PATH(int, unlink, (const char *path), (path))
ON_PATH(int, unlinkat, (int at, const char *path, int flags), (at, path, flags))
ON_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
ON_PATH(int, rmdir, (const char *path), (path))
ON_PATH(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
