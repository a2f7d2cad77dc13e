#include "ctl/output/journal.h"

#include "ctl/output/console.h"
#include "io/process/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SUFFIX           ".log"
#define ENCODED_NAME_MAX 196u /* encoded bytes; behind them a hash, the suffix and ".1" */

/* --- names --- */

static bool is_plain(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (!first && (c == '-' || c == '.'));
}

void as_journal_file_name(char ret_file[AS_JOURNAL_FILE_MAX], const char *name)
{
    size_t n = 0;
    const char *p;

    for (p = name; *p && n + 3 <= ENCODED_NAME_MAX; p++) {
        if (is_plain(*p, p == name))
            ret_file[n++] = *p;
        else
            n += (size_t)snprintf(ret_file + n, AS_JOURNAL_FILE_MAX - n, "%%%02X", (uint8_t)*p);
    }
    if (*p) /* tells long names apart that begin alike */
        n += (size_t)snprintf(ret_file + n, AS_JOURNAL_FILE_MAX - n, "~%016llx",
                              (unsigned long long)as_str_hash(as_str_of(name)));
    snprintf(ret_file + n, AS_JOURNAL_FILE_MAX - n, SUFFIX);
}

bool as_journal_parse_file_name(const char *file, char ret_name[AS_JOURNAL_FILE_MAX])
{
    size_t len = strlen(file), end = len - (sizeof(SUFFIX) - 1), n = 0;

    if (len < sizeof(SUFFIX) || len >= AS_JOURNAL_FILE_MAX || strcmp(file + end, SUFFIX) != 0)
        return false;
    for (size_t i = 0; i < end; i++) {
        int c = as_str_percent((struct as_str){file + i, end - i});

        if (file[i] == '%' && c < 0)
            return false;
        ret_name[n++] = c < 0 ? file[i] : (char)c;
        i += c < 0 ? 0 : 2;
    }
    ret_name[n] = 0;
    return true;
}

/* --- files --- */

static void close_slot(struct as_journal *j, uint32_t i)
{
    if (j->open[i].fd >= 0)
        close(j->open[i].fd);
    j->open[i].fd = -1;
    j->open[i].file[0] = 0;
}

static int open_slot(struct as_journal *j, uint32_t i)
{
    struct stat st;
    int fd = openat(j->dir, j->open[i].file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                    0600);

    j->open[i].fd = fd;
    j->open[i].partial = false;
    j->open[i].size = fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

/* The name is used again. */
static void unretire(struct as_journal *j, const char *file)
{
    for (uint32_t i = 0; i < j->n_retired; i++) {
        if (strcmp(j->retired[i], file) != 0)
            continue;
        j->n_retired--;
        memmove(j->retired[i], j->retired[i + 1], (j->n_retired - i) * sizeof(*j->retired));
        return;
    }
}

/* The slot of a name. If it has none, its file replaces the one that was not written to for the
 * longest time. */
static int find_or_open_slot(struct as_journal *j, const char *file)
{
    uint32_t oldest = 0;

    for (uint32_t i = 0; i < AS_JOURNAL_OPEN_MAX; i++) {
        if (strcmp(j->open[i].file, file) == 0)
            return (int)i;
        if (j->open[i].used < j->open[oldest].used)
            oldest = i;
    }
    close_slot(j, oldest);
    snprintf(j->open[oldest].file, AS_JOURNAL_FILE_MAX, "%s", file);
    unretire(j, file);
    if (open_slot(j, oldest) >= 0)
        return (int)oldest;
    j->open[oldest].file[0] = 0; /* opened again for the next line */
    return -1;
}

static void rotated_name(char out[AS_JOURNAL_FILE_MAX + sizeof(AS_JOURNAL_ROTATED)],
                         const char *file)
{
    snprintf(out, AS_JOURNAL_FILE_MAX + sizeof(AS_JOURNAL_ROTATED), "%s" AS_JOURNAL_ROTATED, file);
}

/* For a moment two processes of the same name may write to the file. If the other one has rotated
 * it already, we continue with its new file. */
static void rotate(struct as_journal *j, uint32_t i)
{
    char rotated[AS_JOURNAL_FILE_MAX + sizeof(AS_JOURNAL_ROTATED)];
    struct stat ours, current;

    rotated_name(rotated, j->open[i].file);
    if (fstat(j->open[i].fd, &ours) == 0 && fstatat(j->dir, j->open[i].file, &current, 0) == 0 &&
        ours.st_ino == current.st_ino)
        renameat(j->dir, j->open[i].file, j->dir, rotated);
    close(j->open[i].fd);
    open_slot(j, i);
}

static void write_slot_line(struct as_journal *j, uint32_t i, struct as_str head,
                            struct as_str line)
{
    char stamp[AS_CONSOLE_TIMESTAMP];
    struct iovec iov[] = {{(void *)(uintptr_t) "\n", 0},       {stamp, AS_JOURNAL_TIMESTAMP},
                          {(void *)(uintptr_t) " ", 1},        {(void *)(uintptr_t)head.p, head.n},
                          {(void *)(uintptr_t)line.p, line.n}, {(void *)(uintptr_t) "\n", 1}};
    uint64_t n = AS_JOURNAL_TIMESTAMP + 2 + head.n + line.n;
    ssize_t written;

    if (j->open[i].size && j->open[i].size + n > j->keep_bytes / 2)
        rotate(j, i);
    /* an open that failed before may succeed now */
    if (j->open[i].fd < 0 && open_slot(j, i) < 0)
        return;
    as_console_timestamp(stamp);
    iov[0].iov_len = j->open[i].partial; /* ends the incomplete line */
    n += iov[0].iov_len;
    written = writev(j->open[i].fd, iov, AS_COUNT(iov));
    if (written <= 0)
        return;
    j->open[i].size += (uint64_t)written;
    j->open[i].partial = (uint64_t)written < n;
}

void as_journal_write(struct as_journal *j, const char *name, struct as_str head,
                      struct as_str line)
{
    char file[AS_JOURNAL_FILE_MAX];
    int i, e = errno; /* restored at the end: callers log their own errors */

    if (!j || !j->keep_bytes || j->dir < 0)
        return;
    as_journal_file_name(file, name);
    line.n = AS_MIN(line.n, (size_t)(j->keep_bytes / 2));
    pthread_mutex_lock(&j->lock);
    i = find_or_open_slot(j, file);
    if (i >= 0) {
        j->open[i].used = ++j->n_lines;
        write_slot_line(j, (uint32_t)i, head, line);
    }
    pthread_mutex_unlock(&j->lock);
    errno = e;
}

void as_journal_add(struct as_journal *j, const char *name)
{
    char file[AS_JOURNAL_FILE_MAX];

    if (!j || !j->keep_bytes || j->dir < 0)
        return;
    as_journal_file_name(file, name);
    pthread_mutex_lock(&j->lock);
    find_or_open_slot(j, file);
    pthread_mutex_unlock(&j->lock);
}

/* --- retired names --- */

static void unlink_log(struct as_journal *j, const char *file)
{
    char rotated[AS_JOURNAL_FILE_MAX + sizeof(AS_JOURNAL_ROTATED)];

    rotated_name(rotated, file);
    unlinkat(j->dir, file, 0);
    unlinkat(j->dir, rotated, 0);
}

void as_journal_retire(struct as_journal *j, const char *name)
{
    char file[AS_JOURNAL_FILE_MAX];

    if (!j || !j->keep_bytes || j->dir < 0)
        return;
    as_journal_file_name(file, name);
    pthread_mutex_lock(&j->lock);
    for (uint32_t i = 0; i < AS_JOURNAL_OPEN_MAX; i++) {
        if (strcmp(j->open[i].file, file) == 0)
            close_slot(j, i); /* so that its next line opens it again, and unretires the name */
    }
    unretire(j, file);
    if (j->n_retired == j->max_retired && j->n_retired) {
        unlink_log(j, j->retired[0]);
        j->n_retired--;
        memmove(j->retired[0], j->retired[1], j->n_retired * sizeof(*j->retired));
    }
    if (j->max_retired)
        memcpy(j->retired[j->n_retired++], file, sizeof(file));
    else
        unlink_log(j, file);
    pthread_mutex_unlock(&j->lock);
}

void as_journal_save(const struct as_journal *j, As__Supervisor *state)
{
    for (uint32_t i = 0; i < j->n_retired; i++)
        AS_REEXEC_APPEND(state, retired_logs, as_str_dup(as_str_of(j->retired[i])));
}

void as_journal_restore(struct as_journal *j, const As__Supervisor *state)
{
    for (size_t i = 0; i < state->n_retired_logs; i++) {
        const char *file = state->retired_logs[i];

        if (j->n_retired < j->max_retired && j->retired && strlen(file) < AS_JOURNAL_FILE_MAX)
            snprintf(j->retired[j->n_retired++], AS_JOURNAL_FILE_MAX, "%s", file);
    }
}

/* --- open and close --- */

int as_journal_open(struct as_journal *j, const char *base, uint16_t port, const char *own,
                    uint64_t keep, uint32_t max_retired)
{
    char path[AS_RUNTIME_PATH_MAX], file[AS_JOURNAL_FILE_MAX];

    *j = (struct as_journal){.dir = -1, .keep_bytes = keep, .max_retired = max_retired};
    for (uint32_t i = 0; i < AS_JOURNAL_OPEN_MAX; i++)
        j->open[i].fd = -1;
    pthread_mutex_init(&j->lock, NULL);
    if (!keep)
        return 0;
    if (as_runtime_path(path, base, port, AS_RUNTIME_LOGS) == 0)
        j->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (j->dir < 0)
        return AS_EIO;
    j->retired = as_xalloc((max_retired + 1) * sizeof(*j->retired));
    as_journal_file_name(file, own);
    find_or_open_slot(j, file);
    return 0;
}

void as_journal_close(struct as_journal *j)
{
    if (!j->keep_bytes)
        return; /* nothing was opened */
    for (uint32_t i = 0; i < AS_JOURNAL_OPEN_MAX; i++)
        close_slot(j, i);
    if (j->dir >= 0)
        close(j->dir);
    pthread_mutex_destroy(&j->lock);
    free(j->retired);
    *j = (struct as_journal){.dir = -1};
}
