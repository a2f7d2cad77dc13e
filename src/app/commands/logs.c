#include "app/commands/logs.h"

#include "app/client/control_client.h"
#include "base/id.h"
#include "conf/option/exit_code.h"
#include "ctl/output/journal.h"
#include "tool/server/which_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MOST      ((off_t)64 << 20) /* bytes of one file that are read */
#define ALIVE_CHECK_MS 1000              /* ms between two checks whether the server runs */

struct source { /* one process, and earlier ones with the same name */
    char file[AS_JOURNAL_FILE_MAX], name[AS_JOURNAL_FILE_MAX];
    int fd;             /* the current file; -1: none */
    struct as_buf text; /* what was read and is not printed yet */
    bool has_unread;    /* there may be more */
};

struct logs {
    const struct as_option_set *opts;
    char *base;
    uint16_t port;
    int dir, notify, stop_fd;
    char only[AS_JOURNAL_FILE_MAX]; /* print only this file; "": all, or those of … */
    struct as_str application;      /* … this application (empty: any) … */
    const char *replica;            /* … and this replica, or … */
    const char *deployment;         /* … the replicas of this deployment; both NULL: all */
    struct source *all;
    uint32_t n;
    bool failed; /* stdout cannot be written */
    bool gone;   /* the folder was removed */
};

/* --- files --- */

static void read_available(struct source *s)
{
    ssize_t n = 1;

    while (s->fd >= 0 && n > 0) {
        n = read(s->fd, as_buf_reserve(&s->text, 65536), 65536);
        if (n > 0)
            s->text.n += (size_t)n;
    }
}

static int open_file(const struct logs *l, const char *file)
{
    return openat(l->dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static ino_t inode(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* Opens the current and the previous file. The current one comes first, since it may become the
 * previous one in between; then both are opened again. */
static void open_current_and_previous(const struct logs *l, struct source *s, int *ret_before)
{
    char before[AS_JOURNAL_FILE_MAX + sizeof(AS_JOURNAL_ROTATED)];

    snprintf(before, sizeof(before), "%s" AS_JOURNAL_ROTATED, s->file);
    for (;;) {
        s->fd = open_file(l, s->file);
        *ret_before = open_file(l, before);
        if (s->fd < 0 || inode(s->fd) != inode(*ret_before))
            return;
        close(s->fd);
        close(*ret_before);
    }
}

static void read_first(const struct logs *l, struct source *s)
{
    off_t size;
    int before;

    open_current_and_previous(l, s, &before);
    if (before >= 0) {
        struct source old = {.fd = before, .text = s->text};

        size = lseek(before, 0, SEEK_END);
        lseek(before, size > FILE_MOST ? size - FILE_MOST : 0, SEEK_SET);
        read_available(&old);
        s->text = old.text;
        close(before);
    }
    if (s->fd >= 0) {
        size = lseek(s->fd, 0, SEEK_END);
        lseek(s->fd, size > FILE_MOST ? size - FILE_MOST : 0, SEEK_SET);
    }
    read_available(s);
}

/* Reads to the end of the current file, and of the next one if the file was rotated. */
static void read_new(const struct logs *l, struct source *s)
{
    struct stat st;

    s->has_unread = false;
    read_available(s);
    while (fstatat(l->dir, s->file, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino != inode(s->fd)) {
        int next = open_file(l, s->file);

        if (next < 0)
            return;
        read_available(s); /* nothing is written to it after the next file exists */
        if (s->fd >= 0)
            close(s->fd);
        s->fd = next;
        read_available(s);
    }
}

static struct source *find_source(struct logs *l, const char *file)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (strcmp(l->all[i].file, file) == 0)
            return &l->all[i];
    }
    return NULL;
}

/* By the name alone ("main-0" of "main"), since the replica may have ended. */
static bool is_replica(const char *name, const char *deployment)
{
    size_t n = strlen(deployment);
    uint64_t number;

    return strncmp(name, deployment, n) == 0 && name[n] == '-' &&
           as_str_u64(as_str_of(name + n + 1), &number) == 0;
}

static bool is_wanted(const struct logs *l, const char *name)
{
    struct as_str id = as_str_of(name), own = as_id_name(id);

    if (!l->replica && !l->deployment)
        return true;
    if (l->application.n && !as_str_eq(as_id_application(id), l->application))
        return false;
    return l->replica ? as_str_eq(own, as_str_of(l->replica)) : is_replica(own.p, l->deployment);
}

/* NULL: the file is not of a process that is to be printed. */
static struct source *add_source(struct logs *l, const char *file)
{
    struct source s = {.fd = -1};

    if ((l->only[0] && strcmp(l->only, file) != 0) || !as_journal_parse_file_name(file, s.name) ||
        !is_wanted(l, s.name))
        return NULL;
    snprintf(s.file, sizeof(s.file), "%s", file);
    l->all = as_xrealloc(l->all, (l->n + 1) * sizeof(*l->all));
    l->all[l->n] = s;
    return &l->all[l->n++];
}

static int by_name(const void *a, const void *b)
{
    const struct source *x = a, *y = b;

    return as_str_compare_natural(as_str_of(x->name), as_str_of(y->name));
}

static void list_sources(struct logs *l)
{
    int fd = openat(l->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* has its own offset */
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        if (!find_source(l, e->d_name))
            add_source(l, e->d_name);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    if (l->n)
        qsort(l->all, l->n, sizeof(*l->all), by_name);
}

/* --- printing --- */

static void print_line(struct logs *l, const struct source *s, struct as_str line)
{
    struct as_str stamp = {line.p, AS_MIN(line.n, (size_t)AS_JOURNAL_TIMESTAMP)};
    size_t skip = AS_MIN(line.n, (size_t)AS_JOURNAL_TIMESTAMP + 1);

    if (as_option_bool(l->opts, AS_OPT_TIMESTAMPS))
        printf("%.*s ", AS_STR_FMT(stamp));
    if (!l->only[0])
        printf("[%s] ", s->name);
    fwrite(line.p + skip, 1, line.n - skip, stdout);
    putchar('\n');
}

static void flush_stdout(struct logs *l)
{
    if (fflush(stdout) != 0)
        l->failed = true;
}

/* The next whole line from `*at` on. */
static bool next_line(const struct source *s, size_t *at, struct as_str *ret_line)
{
    const char *p = (const char *)s->text.p + *at;
    const char *nl = s->text.n > *at ? memchr(p, '\n', s->text.n - *at) : NULL;

    if (!nl)
        return false;
    *ret_line = (struct as_str){p, (size_t)(nl - p)};
    *at += ret_line->n + 1;
    return true;
}

struct found {
    struct as_str line;
    uint32_t source, number;
};

/* By time stamp; lines with the same one stay in the order of the sources and of their lines. */
static int by_time(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int d = memcmp(x->line.p, y->line.p,
                   AS_MIN(AS_MIN(x->line.n, y->line.n), (size_t)AS_JOURNAL_TIMESTAMP));

    if (d)
        return d;
    return x->source != y->source ? (x->source < y->source ? -1 : 1)
                                  : (x->number < y->number ? -1 : 1);
}

/* Prints the newest lines of all sources together. */
static void print_newest(struct logs *l, uint64_t lines)
{
    struct found *all = NULL;
    size_t n = 0, cap = 0;

    for (uint32_t i = 0; i < l->n; i++) {
        struct found f = {.source = i};
        size_t at = 0;

        for (; next_line(&l->all[i], &at, &f.line); f.number++) {
            if (n == cap) {
                cap = cap ? 2 * cap : 1024;
                all = as_xrealloc(all, cap * sizeof(*all));
            }
            all[n++] = f;
        }
    }
    if (n)
        qsort(all, n, sizeof(*all), by_time);
    for (size_t i = n > lines ? n - (size_t)lines : 0; i < n; i++)
        print_line(l, &l->all[all[i].source], all[i].line);
    free(all);
    flush_stdout(l);
}

/* Drops the printed lines; an incomplete last line stays. */
static void drop_lines(struct source *s)
{
    const char *nl = s->text.n ? memrchr(s->text.p, '\n', s->text.n) : NULL;

    as_buf_drop(&s->text, nl ? (size_t)(nl + 1 - (const char *)s->text.p) : 0);
}

static void print_new(struct logs *l, struct source *s)
{
    struct as_str line;
    size_t at = 0;

    read_new(l, s);
    while (next_line(s, &at, &line))
        print_line(l, s, line);
    drop_lines(s);
}

/* --- following --- */

/* Marks the files that inotify reports as written to. */
static void read_notifications(struct logs *l)
{
    char part[8192] __attribute__((aligned(8)));
    ssize_t n;

    while ((n = read(l->notify, part, sizeof(part))) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(part + at);
            struct source *s = e->len ? find_source(l, e->name) : NULL;

            if (e->mask & (IN_DELETE_SELF | IN_IGNORED))
                l->gone = true;
            if (!s && e->len && !(e->mask & IN_DELETE))
                s = add_source(l, e->name);
            if (s)
                s->has_unread = true;
            for (uint32_t i = 0; (e->mask & IN_Q_OVERFLOW) && i < l->n; i++)
                l->all[i].has_unread = true;
            at += (ssize_t)sizeof(*e) + (ssize_t)e->len;
        }
    }
}

/* Prints new lines until the server has ended: a server that ends removes its folder, one that is
 * killed only releases its lock. */
static void follow_logs(struct logs *l)
{
    bool is_last = false;

    while (!l->failed && !is_last) {
        struct pollfd p[] = {{.fd = l->notify, .events = POLLIN},
                             {.fd = l->stop_fd, .events = POLLIN}};
        int n = poll(p, AS_COUNT(p), ALIVE_CHECK_MS);

        if (n > 0 && p[1].revents)
            return;
        is_last = l->gone || (n == 0 && !as_runtime_is_running(l->base, l->port));
        read_notifications(l);
        for (uint32_t i = 0; i < l->n; i++) {
            if (l->all[i].has_unread || is_last || l->gone)
                print_new(l, &l->all[i]);
        }
        flush_stdout(l);
    }
    if (is_last)
        fprintf(stderr, "anyserve: the server has ended\n");
}

/* --- the command --- */

static int open_folder(struct logs *l)
{
    char path[AS_RUNTIME_PATH_MAX];

    l->dir = -1;
    if (as_runtime_path(path, l->base, l->port, AS_RUNTIME_LOGS) == 0)
        l->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->dir < 0)
        return as_control_client_print_no_server(l->opts);
    if (!as_option_bool(l->opts, AS_OPT_FOLLOW))
        return AS_EXIT_CODE_OK;
    /* watch before the first read, so that nothing is missed in between */
    l->stop_fd = as_control_client_signal_fd();
    l->notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (l->notify >= 0 && inotify_add_watch(l->notify, path,
                                            IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE |
                                                IN_DELETE_SELF | IN_ONLYDIR) >= 0)
        return AS_EXIT_CODE_OK;
    fprintf(stderr, "anyserve: cannot watch %s: %s\n", path, strerror(errno));
    return AS_EXIT_CODE_SYSTEM;
}

static int print_unknown(struct logs *l, const char *name)
{
    fprintf(stderr, "anyserve: no output of '%s' is kept; output is kept of:", name);
    l->deployment = NULL;
    list_sources(l);
    for (uint32_t i = 0; i < l->n; i++)
        fprintf(stderr, " %s", l->all[i].name);
    fprintf(stderr, "%s\n", l->n ? "" : " nothing (is --log-keep off?)");
    return AS_EXIT_CODE_NOT_FOUND;
}

/* The name stands for processes of several applications. */
static bool is_ambiguous(const struct logs *l)
{
    for (uint32_t i = 1; i < l->n; i++) {
        if (!as_str_eq(as_id_application(as_str_of(l->all[i].name)),
                       as_id_application(as_str_of(l->all[0].name))))
            return true;
    }
    return false;
}

static int print_ambiguous(const struct logs *l, const char *name)
{
    struct as_str last = AS_STR("");

    fprintf(stderr, "anyserve: several applications have '%s'; name one of them:", name);
    for (uint32_t i = 0; i < l->n; i++) { /* their replicas follow each other */
        struct as_str app = as_id_application(as_str_of(l->all[i].name));

        if (!as_str_eq(app, last))
            fprintf(stderr, " %.*s/%s", AS_STR_FMT(app), name);
        last = app;
    }
    fprintf(stderr, "\n");
    return AS_EXIT_CODE_FAILED;
}

/* [APPLICATION/]REPLICA, else [APPLICATION/]DEPLOYMENT; the name of a process was not found. */
static void list_named(struct logs *l, const char *name)
{
    const char *slash = strchr(name, '/'), *own = slash ? slash + 1 : name;

    if (slash)
        l->application = (struct as_str){name, (size_t)(slash - name)};
    l->only[0] = 0;
    l->replica = own;
    list_sources(l);
    if (l->n == 1)
        memcpy(l->only, l->all[0].file, sizeof(l->only));
    if (l->n)
        return;
    l->replica = NULL;
    l->deployment = own;
    list_sources(l);
}

static int print_logs(struct logs *l)
{
    const char *name = as_option_str(l->opts, AS_OPT_REPLICA);
    int code = open_folder(l);

    if (code != AS_EXIT_CODE_OK)
        return code;
    if (name[0])
        as_journal_file_name(l->only, name);
    list_sources(l);
    if (name[0] && !l->n)
        list_named(l, name);
    if (name[0] && !l->n)
        return print_unknown(l, name);
    if (name[0] && is_ambiguous(l))
        return print_ambiguous(l, name);
    for (uint32_t i = 0; i < l->n; i++)
        read_first(l, &l->all[i]);
    print_newest(l, as_option_u64(l->opts, AS_OPT_LINES));
    for (uint32_t i = 0; i < l->n; i++)
        drop_lines(&l->all[i]);
    if (as_option_bool(l->opts, AS_OPT_FOLLOW))
        follow_logs(l);
    return l->failed ? AS_EXIT_CODE_FAILED : AS_EXIT_CODE_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

int as_logs_main(struct as_option_set *opts)
{
    struct logs l = {.opts = opts, .notify = -1, .stop_fd = -1};
    int code;

    l.port = as_which_server_locate(opts, &l.base);
    code = print_logs(&l);
    for (uint32_t i = 0; i < l.n; i++) {
        close_fd(l.all[i].fd);
        as_buf_fini(&l.all[i].text);
    }
    free(l.all);
    close_fd(l.dir);
    close_fd(l.notify);
    close_fd(l.stop_fd);
    free(l.base);
    return code;
}
