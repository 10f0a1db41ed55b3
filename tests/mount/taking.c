/* Loaded before all else (LD_PRELOAD): each takes one thing away that the front needs, and from nobody else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

static int __attribute__((unused)) is_front(const void *caller) {
    Dl_info found;
    return dladdr(caller, &found) && strstr(found.dli_fname, "/_front.");
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALLED_BY_FRONT is_front(__builtin_return_address(0))

#if defined(MOUNTS_ITSELF) || defined(MOUNTS_BY_THE_NEXT)
int fuse_session_mount(void *session, const char *place) {
#ifdef MOUNTS_ITSELF
    void *const next = dlopen("libfuse3.so.3", RTLD_NOW);
#else
    void *const next = RTLD_NEXT;
#endif
    return ((int (*)(void *, const char *))dlsym(next, "fuse_session_mount"))(session, place);
}
#endif

#ifdef NO_THREAD
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *with) {
    return CALLED_BY_FRONT ? EAGAIN : NEXT(pthread_create)(thread, how, work, with);
}
#endif

#ifdef NO_EVENT
int eventfd(unsigned int count, int flags) {
    if (!CALLED_BY_FRONT) return ((int (*)(unsigned int, int))dlsym(RTLD_NEXT, "eventfd"))(count, flags);
    errno = EMFILE;
    return -1;
}
#endif

#if defined(NO_FLAGS)
int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *const argument = va_arg(rest, void *);
    va_end(rest);
    if (!CALLED_BY_FRONT || command != F_SETFL) return NEXT(fcntl64)(fd, command, argument);
    errno = EPERM;
    return -1;
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *const argument = va_arg(rest, void *);
    va_end(rest);
    if (!CALLED_BY_FRONT || command != F_SETFL) return NEXT(fcntl64)(fd, command, argument);
    errno = EPERM;
    return -1;
}
#endif

#if defined(OLD_LIBFUSE) || defined(LIBFUSE_REFUSES)
static int refuse(void *session, const void *io, int fd) { return (void)session, (void)io, (void)fd, -1; }

void *dlsym(void *library, const char *name) {
    static void *(*real)(void *, const char *);
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (strcmp(name, "fuse_session_custom_io") != 0) return real(library, name);
#ifdef OLD_LIBFUSE
    return (void)refuse, NULL;
#else
    return (void *)refuse;
#endif
}
#endif
