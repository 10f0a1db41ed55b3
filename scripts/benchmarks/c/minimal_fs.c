/* The least a C filesystem on libfuse can do: the yardstick for one FUSE operation.
 *
 * minimal_fs MOUNTPOINT FILE_BYTES ENTRIES TIMEOUT_S [OPTION...]
 *
 * /file          FILE_BYTES of one repeated byte, kept in memory; what is written to it is counted and dropped
 * /entries/<n>   ENTRIES empty files, numbered from 0
 *
 * The low-level API and the single-threaded loop of the library: nothing lighter can be built on it. Runs in the
 * foreground until it is unmounted.
 */
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INO_ROOT = 1, INO_FILE = 2, INO_DIRECTORY = 3, INO_FIRST = 1000 };

static struct {
    char *content;
    size_t content_bytes;
    uint64_t entries;
    double timeout_s;
} fs;

static int attributes(fuse_ino_t ino, struct stat *out)
{
    memset(out, 0, sizeof *out);
    out->st_ino = ino;
    out->st_nlink = 1;
    if (ino == INO_ROOT || ino == INO_DIRECTORY) {
        out->st_mode = S_IFDIR | 0555;
        return 0;
    }
    out->st_mode = S_IFREG | 0644;
    if (ino == INO_FILE) {
        out->st_size = (off_t)fs.content_bytes;
        return 0;
    }
    return ino >= INO_FIRST && ino - INO_FIRST < fs.entries ? 0 : ENOENT;
}

static void op_getattr(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    (void)file;
    struct stat found;
    int error = attributes(ino, &found);
    if (error)
        fuse_reply_err(request, error);
    else
        fuse_reply_attr(request, &found, fs.timeout_s);
}

static fuse_ino_t child(fuse_ino_t parent, const char *name)
{
    if (parent == INO_ROOT && strcmp(name, "file") == 0)
        return INO_FILE;
    if (parent == INO_ROOT && strcmp(name, "entries") == 0)
        return INO_DIRECTORY;
    if (parent != INO_DIRECTORY || name[0] < '0' || name[0] > '9')
        return 0;
    char *end;
    unsigned long long number = strtoull(name, &end, 10);
    return *end == '\0' && number < fs.entries ? INO_FIRST + number : 0;
}

static void op_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry = {.ino = child(parent, name)};
    if (entry.ino == 0 || attributes(entry.ino, &entry.attr) != 0) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    entry.attr_timeout = entry.entry_timeout = fs.timeout_s;
    fuse_reply_entry(request, &entry);
}

static void op_open(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    (void)ino;
    if ((file->flags & O_ACCMODE) == O_RDONLY)
        file->keep_cache = 1;
    else
        file->direct_io = 1;
    fuse_reply_open(request, file);
}

static void op_read(fuse_req_t request, fuse_ino_t ino, size_t length, off_t offset, struct fuse_file_info *file)
{
    (void)file;
    size_t available = ino == INO_FILE && (size_t)offset < fs.content_bytes ? fs.content_bytes - (size_t)offset : 0;
    fuse_reply_buf(request, fs.content + offset, length < available ? length : available);
}

static void op_write(fuse_req_t request, fuse_ino_t ino, const char *bytes, size_t length, off_t offset,
                     struct fuse_file_info *file)
{
    (void)ino;
    (void)bytes;
    (void)offset;
    (void)file;
    fuse_reply_write(request, length);
}

static void op_readdirplus(fuse_req_t request, fuse_ino_t ino, size_t length, off_t offset,
                           struct fuse_file_info *file)
{
    (void)file;
    char *buffer = malloc(length);
    size_t used = 0;
    if (buffer == NULL) {
        fuse_reply_err(request, ENOMEM);
        return;
    }
    uint64_t count = ino == INO_DIRECTORY ? fs.entries : 2;
    for (uint64_t index = (uint64_t)offset; index < count; index++) {
        char name[24];
        if (ino == INO_DIRECTORY)
            snprintf(name, sizeof name, "%llu", (unsigned long long)index);
        else
            snprintf(name, sizeof name, "%s", index == 0 ? "file" : "entries");
        struct fuse_entry_param entry = {.ino = child(ino, name)};
        attributes(entry.ino, &entry.attr);
        entry.attr_timeout = entry.entry_timeout = fs.timeout_s;
        size_t size = fuse_add_direntry_plus(request, buffer + used, length - used, name, &entry, (off_t)index + 1);
        if (size > length - used)
            break;
        used += size;
    }
    fuse_reply_buf(request, buffer, used);
    free(buffer);
}

static const struct fuse_lowlevel_ops operations = {
    .getattr = op_getattr,
    .lookup = op_lookup,
    .open = op_open,
    .read = op_read,
    .write = op_write,
    .readdirplus = op_readdirplus,
};

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: %s MOUNTPOINT FILE_BYTES ENTRIES TIMEOUT_S [OPTION...]\n", argv[0]);
        return 2;
    }
    fs.content_bytes = strtoull(argv[2], NULL, 10);
    fs.entries = strtoull(argv[3], NULL, 10);
    fs.timeout_s = strtod(argv[4], NULL);
    fs.content = malloc(fs.content_bytes + 1);
    if (fs.content == NULL)
        return 1;
    memset(fs.content, 'x', fs.content_bytes);
    struct fuse_args arguments = FUSE_ARGS_INIT(0, NULL);
    fuse_opt_add_arg(&arguments, argv[0]);
    for (int i = 5; i < argc; i++)
        fuse_opt_add_arg(&arguments, argv[i]);
    int status = 1;
    struct fuse_session *session = fuse_session_new(&arguments, &operations, sizeof operations, NULL);
    if (session == NULL)
        goto free_arguments;
    if (fuse_session_mount(session, argv[1]) != 0)
        goto destroy;
    status = fuse_session_loop(session) == 0 ? 0 : 1;
    fuse_session_unmount(session);
destroy:
    fuse_session_destroy(session);
free_arguments:
    fuse_opt_free_args(&arguments);
    free(fs.content);
    return status;
}
