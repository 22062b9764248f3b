/* What a program does to the files of one folder, written down, failed or ended as a test asks; loaded by LD_PRELOAD.

   DISK_FOLDER   files below it are looked at, all others are left alone
   DISK_LOG      every change and every sync of them is appended here, and every send on a socket (see disk.py)
   DISK_FULL     while this file exists, nothing in the folder takes another byte: ENOSPC
   DISK_KILL     "before write 3", "after sync 1", "before send 2" …: there the process kills itself (SIGKILL)

   The program knows nothing of it. SQLite's shared memory (-shm) is left out: it is made anew after a crash. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#undef open
#undef openat
#undef ftruncate
#undef pwrite

enum { FILES = 65536 };

static char *watched[FILES]; /* by descriptor: the path below the folder, or NULL */
static char folder[PATH_MAX], kill_when[8], kill_what[16];
static const char *full_path;
static long kill_count;
static int log_file = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct header {
    char kind;
    char unused[3];
    uint32_t path_bytes;
    uint64_t offset, bytes, nanoseconds;
};

#define REAL(name, type, ...) \
    static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("DISK_FOLDER"), *log = getenv("DISK_LOG"), *asked = getenv("DISK_KILL");
    if (where && realpath(where, folder)) strncat(folder, "/", sizeof folder - strlen(folder) - 1);
    if (log) log_file = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    full_path = getenv("DISK_FULL");
    if (asked) sscanf(asked, "%7s %15s %ld", kill_when, kill_what, &kill_count);
}

static int is_watched(const char *path) {
    size_t bytes = strlen(path);
    return folder[0] && strncmp(path, folder, strlen(folder)) == 0 && !(bytes > 4 && !strcmp(path + bytes - 4, "-shm"));
}

static void note(char kind, const char *path, uint64_t offset, const void *data, uint64_t bytes, int holds_data) {
    struct timespec now;
    if (log_file < 0) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct header header = {kind, {0}, (uint32_t)strlen(path), offset, bytes,
                            (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
    struct iovec parts[3] = {{&header, sizeof header}, {(void *)path, strlen(path)}, {(void *)data, holds_data ? bytes : 0}};
    if (writev(log_file, parts, 3) < 0) abort();
}

static void at(const char *when, const char *what) {
    static long seen;
    if (kill_count == 0 || strcmp(when, kill_when) || strcmp(what, kill_what)) return;
    if (__sync_add_and_fetch(&seen, 1) == kill_count) kill(getpid(), SIGKILL);
}

static int is_full(void) {
    return full_path && access(full_path, F_OK) == 0;
}

static int opened(int descriptor, int existed) {
    char link[64], path[PATH_MAX];
    if (descriptor < 0 || descriptor >= FILES) return descriptor;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t bytes = readlink(link, path, sizeof path - 1);
    if (bytes <= 0) return descriptor;
    path[bytes] = 0;
    if (is_watched(path)) {
        watched[descriptor] = strdup(path + strlen(folder));
        if (!existed) note('C', watched[descriptor], 0, "", 0, 0);
    } else if (folder[0] && strlen(path) + 1 == strlen(folder) && !strncmp(path, folder, strlen(path))) {
        watched[descriptor] = strdup("");
    }
    return descriptor;
}

static const char *name_of(int descriptor) {
    return descriptor >= 0 && descriptor < FILES ? watched[descriptor] : NULL;
}

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(arguments, int) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name, int, const char *, int, ...); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        int existed = access(path, F_OK) == 0; \
        return opened(real_##name(path, flags, mode), existed); \
    }
#define OPENAT(name) \
    int name(int at_folder, const char *path, int flags, ...) { \
        REAL(name, int, int, const char *, int, ...); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        int existed = faccessat(at_folder, path, F_OK, 0) == 0; \
        return opened(real_##name(at_folder, path, flags, mode), existed); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int descriptor) {
    REAL(close, int, int);
    if (name_of(descriptor)) {
        free(watched[descriptor]);
        watched[descriptor] = NULL;
    }
    return real_close(descriptor);
}

static ssize_t wrote(int descriptor, const char *path, const void *data, size_t bytes, off64_t offset,
                     ssize_t (*real)(int, const void *, size_t, off64_t)) {
    if (is_full()) {
        errno = ENOSPC;
        return -1;
    }
    at("before", "write");
    pthread_mutex_lock(&lock);
    ssize_t done = real(descriptor, data, bytes, offset);
    if (done > 0) note('W', path, (uint64_t)offset, data, (uint64_t)done, 1);
    pthread_mutex_unlock(&lock);
    at("after", "write");
    return done;
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset) {
    REAL(pwrite64, ssize_t, int, const void *, size_t, off64_t);
    const char *path = name_of(descriptor);
    if (!path) return real_pwrite64(descriptor, data, bytes, offset);
    return wrote(descriptor, path, data, bytes, offset, real_pwrite64);
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
    return pwrite64(descriptor, data, bytes, offset);
}

static ssize_t append(int descriptor, const void *data, size_t bytes, off64_t offset) {
    REAL(write, ssize_t, int, const void *, size_t);
    (void)offset;
    return real_write(descriptor, data, bytes);
}

ssize_t write(int descriptor, const void *data, size_t bytes) {
    const char *path = name_of(descriptor);
    if (!path) return append(descriptor, data, bytes, 0);
    int appends = fcntl(descriptor, F_GETFL) & O_APPEND;
    return wrote(descriptor, path, data, bytes, lseek64(descriptor, 0, appends ? SEEK_END : SEEK_CUR), append);
}

int ftruncate64(int descriptor, off64_t bytes) {
    REAL(ftruncate64, int, int, off64_t);
    const char *path = name_of(descriptor);
    if (!path) return real_ftruncate64(descriptor, bytes);
    at("before", "write");
    pthread_mutex_lock(&lock);
    int done = real_ftruncate64(descriptor, bytes);
    if (done == 0) note('T', path, (uint64_t)bytes, "", 0, 0);
    pthread_mutex_unlock(&lock);
    at("after", "write");
    return done;
}

int ftruncate(int descriptor, off_t bytes) {
    return ftruncate64(descriptor, bytes);
}

static int synced(int descriptor, const char *path, int (*real)(int)) {
    at("before", "sync");
    pthread_mutex_lock(&lock);
    int done = real(descriptor);
    if (done == 0) note('S', path, 0, "", 0, 0);
    pthread_mutex_unlock(&lock);
    at("after", "sync");
    return done;
}

int fsync(int descriptor) {
    REAL(fsync, int, int);
    const char *path = name_of(descriptor);
    return path ? synced(descriptor, path, real_fsync) : real_fsync(descriptor);
}

int fdatasync(int descriptor) {
    REAL(fdatasync, int, int);
    const char *path = name_of(descriptor);
    return path ? synced(descriptor, path, real_fdatasync) : real_fdatasync(descriptor);
}

int unlink(const char *path) {
    REAL(unlink, int, const char *);
    char whole[PATH_MAX];
    int known = realpath(path, whole) != NULL && is_watched(whole);
    if (known) at("before", "write");
    pthread_mutex_lock(&lock);
    int done = real_unlink(path);
    if (known && done == 0) note('U', whole + strlen(folder), 0, "", 0, 0);
    pthread_mutex_unlock(&lock);
    if (known) at("after", "write");
    return done;
}

int rename(const char *path, const char *to) {
    REAL(rename, int, const char *, const char *);
    char whole[PATH_MAX], new[PATH_MAX];
    int known = realpath(path, whole) != NULL && is_watched(whole);
    if (known) at("before", "write");
    pthread_mutex_lock(&lock);
    int done = real_rename(path, to);
    if (known && done == 0 && realpath(to, new)) {
        const char *name = new + strlen(folder);
        note('R', whole + strlen(folder), 0, name, strlen(name), 1);
    }
    pthread_mutex_unlock(&lock);
    if (known) at("after", "write");
    return done;
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir, int, const char *, mode_t);
    char whole[PATH_MAX];
    int done = real_mkdir(path, mode);
    if (done == 0 && realpath(path, whole) && is_watched(whole)) note('M', whole + strlen(folder), 0, "", 0, 0);
    return done;
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
    REAL(sendmsg, ssize_t, int, const struct msghdr *, int);
    if (folder[0]) at("before", "send");
    ssize_t done = real_sendmsg(descriptor, message, flags);
    if (folder[0] && done > 0) note('N', "", 0, "", (uint64_t)done, 0);
    if (folder[0]) at("after", "send");
    return done;
}
