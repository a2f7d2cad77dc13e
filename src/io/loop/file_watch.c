#include "io/loop/file_watch.h"

#include "base/str.h"

#include <limits.h>
#include <sys/inotify.h>
#include <unistd.h>

/* IN_ATTRIB: a mode or an owner, which may be why a file could not be read. */
#define CHANGE_EVENTS                                                                              \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ATTRIB)
#define LINKS_MAX 40u /* as the kernel follows: path_resolution(7) */

struct file {
    int folder; /* watch descriptor */
    char *name;
};

struct as_file_watch {
    struct as_sock sock;
    int fd;       /* the sock's when it is started, and its own until then */
    bool started; /* the loop has the sock */
    void (*changed)(void *ctx);
    void *ctx;
    struct file *files;
    uint32_t n, room;
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

int as_file_watch_new(struct as_file_watch **ret_w, void (*changed)(void *ctx), void *ctx)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    struct as_file_watch *w;

    if (fd < 0)
        return AS_EIO;
    w = as_xalloc(sizeof(*w));
    *w = (struct as_file_watch){.fd = fd, .changed = changed, .ctx = ctx};
    *ret_w = w;
    return 0;
}

int as_file_watch_start(struct as_file_watch *w, struct as_loop *loop)
{
    w->started = as_sock_open(&w->sock, loop, w->fd, on_event) == 0;
    if (!w->started)
        w->fd = -1; /* it was closed */
    return w->started ? 0 : AS_EIO;
}

/* --- which names of which folders --- */

static bool watch_name(struct as_file_watch *w, const char *folder, const char *name)
{
    int wd = inotify_add_watch(w->fd, folder, CHANGE_EVENTS);

    if (wd < 0)
        return false;
    if (w->n == w->room) {
        w->room = AS_MAX(2 * w->room, 8u);
        w->files = as_xrealloc(w->files, w->room * sizeof(*w->files));
    }
    w->files[w->n++] = (struct file){wd, as_str_dup(as_str_of(name))};
    return true;
}

/* How far a path was followed. */
struct walk {
    char *folder; /* without symbolic links */
    char *rest;   /* of the path, from there */
    uint32_t links;
};

static void replace(char **old, char *next)
{
    free(*old);
    *old = next;
}

/* One component of the path. A link is watched where it lies, and so is the file in the end; both
 * before it is read whether the name is a link, so that none is missed that changes meanwhile.
 * False: cannot be watched. */
static bool step(struct as_file_watch *w, struct walk *k)
{
    size_t from = strspn(k->rest, "/"), n = strcspn(k->rest + from, "/");
    char *name = as_str_format("%.*s", (int)n, k->rest + from);
    char *path = as_str_format("%s/%s", k->folder, name);
    char *rest = as_str_dup(as_str_of(k->rest + from + n)), target[PATH_MAX];
    bool last = !rest[strspn(rest, "/")], ok = true;
    ssize_t len = readlink(path, target, sizeof(target) - 1);

    if (len >= 0 || last) {
        ok = watch_name(w, k->folder, name);
        len = readlink(path, target, sizeof(target) - 1);
    }
    if (len >= 0) {
        target[len] = 0;
        replace(&k->rest, as_str_format("%s%s", target, rest));
        if (target[0] == '/')
            replace(&k->folder, as_str_dup(AS_STR("/")));
        ok = ok && ++k->links <= LINKS_MAX;
        free(path);
        free(rest);
    } else {
        replace(&k->folder, path);
        replace(&k->rest, rest);
    }
    free(name);
    return ok;
}

static bool watch_path(struct as_file_watch *w, const char *path)
{
    struct walk k = {.folder = as_str_dup(as_str_of(path[0] == '/' ? "/" : ".")),
                     .rest = as_str_dup(as_str_of(path))};
    bool ok = true;

    while (ok && k.rest[strspn(k.rest, "/")])
        ok = step(w, &k);
    free(k.folder);
    free(k.rest);
    return ok;
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

    w->files = NULL;
    w->n = w->room = 0;
    for (uint32_t i = 0; i < n; i++)
        missed += !watch_path(w, paths[i]);
    /* a folder has one watch however often it was added: remove those that no file needs */
    for (uint32_t i = 0; i < n_old; i++) {
        if (!is_folder_watched(w, old[i].folder))
            inotify_rm_watch(w->fd, old[i].folder);
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
    w->n = w->room = 0;
    if (w->started) {
        as_sock_close(&w->sock, on_closed);
        return;
    }
    if (w->fd >= 0)
        close(w->fd);
    free(w);
}
