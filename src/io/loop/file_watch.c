#include "io/loop/file_watch.h"

#include "base/str.h"

#include <errno.h>
#include <sys/inotify.h>
#include <unistd.h>

#define CHANGE_EVENTS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE)

struct file {
    int folder; /* watch descriptor */
    char *name;
};

struct as_file_watch {
    struct as_sock sock;
    void (*changed)(void *ctx);
    void *ctx;
    struct file *files;
    uint32_t n;
};

static bool is_watched_file(const struct as_file_watch *w, const struct inotify_event *e)
{
    if (e->mask & IN_Q_OVERFLOW) /* events were lost; one of them may have been about our files */
        return true;
    for (uint32_t i = 0; e->len && i < w->n; i++) {
        if (w->files[i].folder == e->wd && strcmp(w->files[i].name, e->name) == 0)
            return true;
    }
    return false;
}

static void on_event(struct as_sock *s, int events AS_UNUSED)
{
    struct as_file_watch *w = AS_CONTAINER(s, struct as_file_watch, sock);
    char buf[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool matched = false;
    ssize_t n;

    while ((n = read(s->fd, buf, sizeof(buf))) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(buf + at);

            matched = matched || is_watched_file(w, e);
            at += (ssize_t)(sizeof(*e) + e->len);
        }
    }
    if (matched)
        w->changed(w->ctx);
}

int as_file_watch_new(struct as_file_watch **ret_w, struct as_loop *loop,
                      void (*changed)(void *ctx), void *ctx)
{
    struct as_file_watch *w = as_xalloc(sizeof(*w));
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    *w = (struct as_file_watch){.changed = changed, .ctx = ctx};
    if (fd < 0 || as_sock_open(&w->sock, loop, fd, on_event) < 0) {
        free(w);
        return AS_EIO;
    }
    *ret_w = w;
    return 0;
}

static int watch_folder(const struct as_file_watch *w, const char *path)
{
    char *folder = as_str_dup(as_str_of(path)), *slash = strrchr(folder, '/');
    int wd;

    if (slash)
        slash[slash == folder ? 1 : 0] = 0;
    wd = inotify_add_watch(w->sock.fd, slash ? folder : ".", CHANGE_EVENTS);
    free(folder);
    return wd;
}

static void free_files(struct file *files, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(files[i].name);
    free(files);
}

static bool is_folder_watched(const struct as_file_watch *w, int folder)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->files[i].folder == folder)
            return true;
    }
    return false;
}

uint32_t as_file_watch_set(struct as_file_watch *w, char *const *paths, uint32_t n)
{
    struct file *old = w->files;
    uint32_t n_old = w->n, missed = 0;

    w->files = as_xalloc((n + 1) * sizeof(*w->files));
    w->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *slash = strrchr(paths[i], '/');
        int folder = watch_folder(w, paths[i]);

        if (folder < 0)
            missed++;
        else
            w->files[w->n++] =
                (struct file){folder, as_str_dup(as_str_of(slash ? slash + 1 : paths[i]))};
    }
    /* a folder has one watch however often it was added: remove those that no file needs */
    for (uint32_t i = 0; i < n_old; i++) {
        if (!is_folder_watched(w, old[i].folder))
            inotify_rm_watch(w->sock.fd, old[i].folder);
    }
    free_files(old, n_old);
    return missed;
}

static void on_closed(struct as_sock *s)
{
    free(AS_CONTAINER(s, struct as_file_watch, sock));
}

void as_file_watch_close(struct as_file_watch *w)
{
    if (!w)
        return;
    free_files(w->files, w->n);
    w->files = NULL;
    w->n = 0;
    as_sock_close(&w->sock, on_closed);
}
