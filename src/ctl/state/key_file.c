#include "ctl/state/key_file.h"

#include "ctl/state/secret_file.h"
#include "io/loop/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (64u << 10) /* bytes of one read; above AS_KEY_LINE_MAX */
#define WHAT  "file of API keys"

#define LOCK_POLL_US 10000 /* flock has no time limit of its own */

static const char header[] =
    "# API keys of AnyServe (--api-keys), one a line; written by `anyserve keys`, or by hand.\n"
    "# name=NAME sha256=DIGEST are required. The digest is the SHA-256 of the key, which is in no\n"
    "# file. Optional: tenant=NAME models=GLOB,… applications=GLOB,… rate=N/s (or /m, /h) burst=N\n"
    "# in-flight=N expires=2027-01-31T12:00:00Z. A server reads the file again when it changes.\n";

/* --- reading --- */

/* What is done with each line, which is not a comment. 0, or an error with a sentence. */
typedef int (*line_fn)(void *ctx, struct as_str line, struct as_buf *err);

/* Without "\n" or "\r\n". */
static struct as_str without_end(struct as_str line)
{
    if (line.n && line.p[line.n - 1] == '\n')
        line.n--;
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    return line;
}

/* A comment may not be longer than any other line. */
static int read_line(const char *path, size_t number, struct as_str line, line_fn fn, void *ctx,
                     struct as_buf *err)
{
    struct as_buf why = {0};
    int rc = 0;

    line = without_end(line);
    if (line.n > AS_KEY_LINE_MAX) {
        as_buf_printf(&why, "the line is longer than %u bytes", AS_KEY_LINE_MAX);
        rc = AS_EINVALID;
    } else if (!as_key_line_is_comment(line)) {
        rc = fn(ctx, line, &why);
    }
    if (rc)
        as_buf_printf(err, "%s:%zu: %.*s", path, number, AS_STR_FMT(as_buf_slice(&why)));
    as_buf_fini(&why);
    return rc;
}

/* Takes the first line with its end, if there is an end. */
static bool next_line(struct as_str *rest, struct as_str *ret_line)
{
    const char *end = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    size_t n = end ? (size_t)(end - rest->p) + 1 : rest->n;

    *ret_line = (struct as_str){rest->p, n};
    if (end) {
        rest->p += n;
        rest->n -= n;
    }
    return end != NULL;
}

static int read_lines_of(int fd, const char *path, char *buf, line_fn fn, void *ctx,
                         struct as_buf *err)
{
    size_t number = 1, have = 0;
    ssize_t n;
    int rc = 0;

    while (!rc && (n = read(fd, buf + have, CHUNK - have)) != 0) {
        struct as_str rest = {buf, have}, line;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            as_buf_printf(err, "cannot read the " WHAT " %s: %s", path, strerror(errno));
            return AS_EIO;
        }
        rest.n += (size_t)n;
        while (!rc && next_line(&rest, &line))
            rc = read_line(path, number++, line, fn, ctx, err);
        if (!rc && rest.n > AS_KEY_LINE_MAX + 1) /* and "\r": it is too long, whatever follows */
            rc = read_line(path, number, rest, fn, ctx, err);
        memmove(buf, rest.p, rest.n);
        have = rest.n;
    }
    return rc || !have ? rc : read_line(path, number, (struct as_str){buf, have}, fn, ctx, err);
}

static int read_lines(int fd, const char *path, line_fn fn, void *ctx, struct as_buf *err)
{
    char *buf = malloc(CHUNK);
    int rc;

    if (!buf) {
        as_buf_str(err, "out of memory");
        return AS_ENOMEM;
    }
    rc = read_lines_of(fd, path, buf, fn, ctx, err);
    free(buf);
    return rc;
}

struct load {
    struct as_key_table *table;
    const struct as_key_table *former;
};

static int load_line(void *ctx, struct as_str line, struct as_buf *err)
{
    struct load *l = ctx;
    struct as_key_line k;
    int rc = as_key_line_parse(line, &k, err);

    return rc ? rc : as_key_table_add(l->table, &k, l->former, err);
}

static int load_table(int fd, const char *path, uint32_t most, const struct as_key_table *former,
                      struct as_key_table **ret_t, struct as_buf *err)
{
    struct load l = {as_key_table_new(most), former};
    int rc = AS_ENOMEM;

    if (l.table)
        rc = read_lines(fd, path, load_line, &l, err);
    else
        as_buf_str(err, "out of memory");
    if (rc) {
        as_key_table_unref(l.table);
        return rc;
    }
    as_key_table_seal(l.table);
    *ret_t = l.table;
    return 0;
}

int as_key_file_load(const char *path, uint32_t most, const struct as_key_table *former,
                     struct as_key_table **ret_t, struct as_buf *err)
{
    int fd, rc = as_secret_file_open(path, WHAT, &fd, err);

    if (rc)
        return rc;
    rc = load_table(fd, path, most, former, ret_t, err);
    close(fd);
    return rc;
}

struct list {
    void (*each)(const struct as_key_line *k, void *ctx);
    void *ctx;
};

static int list_line(void *ctx, struct as_str line, struct as_buf *err)
{
    struct list *l = ctx;
    struct as_key_line k;
    int rc = as_key_line_parse(line, &k, err);

    if (!rc)
        l->each(&k, l->ctx);
    return rc;
}

int as_key_file_list(const char *path, void (*each)(const struct as_key_line *k, void *ctx),
                     void *ctx, struct as_buf *err)
{
    struct list l = {each, ctx};
    int fd, rc = as_secret_file_open(path, WHAT, &fd, err);

    if (rc)
        return rc;
    rc = read_lines(fd, path, list_line, &l, err);
    close(fd);
    return rc;
}

/* --- changing --- */

/* A change of the file while it is made. */
struct change {
    char *path;        /* without symbolic links: those stay */
    char *fresh;       /* the new file, which then takes its place */
    int lock;          /* … open and locked: two changes at once would lose one; -1: not locked */
    int folder;        /* of both */
    struct as_buf old; /* the text so far */
    uid_t uid;         /* owner of the file; (uid_t)-1: there is none */
    gid_t gid;
    bool replaced;
};

static int fail_io(struct as_buf *err, const char *verb, const char *path)
{
    as_buf_printf(err, "cannot %s %s: %s", verb, path, strerror(errno));
    return errno == ENOENT ? AS_ENOTFOUND : errno == EACCES || errno == EPERM ? AS_EDENIED : AS_EIO;
}

static int open_folder(struct change *c, struct as_buf *err)
{
    char *copy = as_str_dup(as_str_of(c->path));
    const char *folder = dirname(copy);
    int rc = 0;

    c->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->folder < 0)
        rc = fail_io(err, "open the folder", folder);
    free(copy);
    return rc;
}

/* 0; AS_EAGAIN: another process has the lock, and still has it after `wait`. */
static int lock_within(int fd, as_ns wait, const char *path, struct as_buf *err)
{
    as_ns end = as_clock_read(CLOCK_MONOTONIC) + wait;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fail_io(err, "lock", path);
        if (as_clock_read(CLOCK_MONOTONIC) >= end) {
            as_buf_printf(err,
                          "another process has locked %s for %u s and more: if no `anyserve keys` "
                          "is under way, find it with `fuser` and end it, or remove the file",
                          path, (unsigned)(wait / AS_SEC));
            return AS_EAGAIN;
        }
        usleep(LOCK_POLL_US);
    }
    return 0;
}

/* The lock is the new file, which only we can open: who may read the folder could lock that.
 * Whoever had the lock before has renamed or removed the file. */
static int lock_fresh(struct change *c, as_ns wait, struct as_buf *err)
{
    struct stat st, at;
    int rc = 0;
    bool same = false;

    while (!rc && !same) {
        int fd = open(c->fresh, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

        if (fd < 0)
            return fail_io(err, "write", c->fresh);
        rc = lock_within(fd, wait, c->fresh, err);
        same = !rc && fstat(fd, &st) == 0 && lstat(c->fresh, &at) == 0 && st.st_ino == at.st_ino &&
               st.st_dev == at.st_dev;
        if (same && (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077 ||
                     st.st_nlink != 1)) {
            as_buf_printf(err, "%s is in the way: remove it", c->fresh);
            rc = AS_EDENIED;
        }
        if (same && !rc)
            c->lock = fd;
        else
            close(fd);
    }
    return rc;
}

static int read_all(int fd, const char *path, struct as_buf *out, struct as_buf *err)
{
    ssize_t n;

    while ((n = read(fd, as_buf_reserve(out, CHUNK), CHUNK)) != 0) {
        if (n < 0 && errno != EINTR)
            return fail_io(err, "read", path);
        out->n += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Reads the file; without one the text is the header if `make`. */
static int read_old(struct change *c, bool make, struct as_buf *err)
{
    struct as_buf why = {0};
    struct stat st;
    int fd, rc = as_secret_file_open(c->path, WHAT, &fd, &why);

    c->uid = (uid_t)-1;
    if (rc == AS_ENOTFOUND && make) {
        as_buf_str(&c->old, header);
        rc = 0;
    } else if (rc) {
        as_buf_add(err, why.p, why.n);
    } else {
        rc = read_all(fd, c->path, &c->old, err);
        if (fstat(fd, &st) == 0) {
            c->uid = st.st_uid;
            c->gid = st.st_gid;
        }
        close(fd);
    }
    as_buf_fini(&why);
    return rc;
}

/* c->path. A link that leads nowhere is not replaced by a file: it says where the file should be.
 */
static int resolve(struct change *c, const char *path, struct as_buf *err)
{
    struct stat st;

    c->path = realpath(path, NULL);
    if (c->path)
        return 0;
    if (errno != ENOENT)
        return fail_io(err, "open", path);
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        as_buf_printf(err,
                      "%s is a symbolic link to a file that does not exist: make that file, or "
                      "remove the link",
                      path);
        return AS_ENOTFOUND;
    }
    c->path = as_str_dup(as_str_of(path)); /* there is no file yet */
    return 0;
}

static int begin_change(struct change *c, const char *path, bool make, as_ns wait,
                        struct as_buf *err)
{
    int rc;

    *c = (struct change){.lock = -1, .folder = -1};
    rc = resolve(c, path, err);
    if (rc)
        return rc;
    c->fresh = as_str_format("%s.new", c->path);
    rc = open_folder(c, err);
    if (!rc)
        rc = lock_fresh(c, wait, err);
    return rc ? rc : read_old(c, make, err);
}

static void end_change(struct change *c)
{
    if (c->lock >= 0) {
        if (!c->replaced)
            unlink(c->fresh);
        close(c->lock);
    }
    if (c->folder >= 0)
        close(c->folder);
    free(c->path);
    free(c->fresh);
    as_buf_fini(&c->old);
}

static bool write_all(int fd, const struct as_buf *text)
{
    size_t at = 0;

    while (at < text->n) {
        ssize_t n = write(fd, text->p + at, text->n - at);

        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* The new file has the owner of the old one: root may edit that of a server without privileges. It
 * gets it last, so that what an interrupted change leaves behind is ours, and the next one uses it.
 */
static bool fill(const struct change *c, const struct as_buf *text)
{
    return ftruncate(c->lock, 0) == 0 && write_all(c->lock, text) && fchmod(c->lock, 0600) == 0 &&
           (c->uid == (uid_t)-1 || c->uid == geteuid() || fchown(c->lock, c->uid, c->gid) == 0) &&
           fsync(c->lock) == 0;
}

/* The file is the old one or the new one, also after a loss of power. */
static int replace(struct change *c, const struct as_buf *text, struct as_buf *err)
{
    c->replaced = fill(c, text) && rename(c->fresh, c->path) == 0;
    if (!c->replaced)
        return fail_io(err, "write", c->path);
    return fsync(c->folder) < 0 ? fail_io(err, "write the folder of", c->path) : 0;
}

static int refuse_its_name(void *ctx, struct as_str line, struct as_buf *err)
{
    const struct as_key_line *add = ctx;
    struct as_key_line k;
    int rc = as_key_line_parse(line, &k, err);

    if (rc || !as_str_eq(k.name, add->name))
        return rc;
    as_buf_printf(err, "there is a key with the name '%.*s' already", AS_STR_FMT(add->name));
    return AS_EEXISTS;
}

/* A server would not read a file with a bad line, so no key is added to one. */
static int check_old(const struct change *c, const char *path, struct as_key_line add,
                     struct as_buf *err)
{
    struct as_str rest = as_buf_slice(&c->old), line;
    size_t number = 1;
    int rc = 0;

    while (!rc && next_line(&rest, &line))
        rc = read_line(path, number++, line, refuse_its_name, &add, err);
    return rc ? rc : read_line(path, number, rest, refuse_its_name, &add, err);
}

int as_key_file_add(const char *path, const struct as_key_line *k, as_ns wait, struct as_buf *err)
{
    struct change c;
    int rc = begin_change(&c, path, true, wait, err);

    if (!rc)
        rc = check_old(&c, path, *k, err);
    if (!rc) {
        if (c.old.n && c.old.p[c.old.n - 1] != '\n')
            as_buf_str(&c.old, "\n");
        as_key_line_put(k, &c.old);
        rc = replace(&c, &c.old, err);
    }
    end_change(&c);
    return rc;
}

static bool is_of(struct as_str line, struct as_str name)
{
    struct as_buf why = {0};
    struct as_key_line k;
    bool is = !as_key_line_is_comment(line) && !as_key_line_parse(line, &k, &why) &&
              as_str_eq(k.name, name);

    as_buf_fini(&why);
    return is;
}

static void keep_others(struct as_str line, struct as_str name, struct as_buf *text)
{
    if (!is_of(without_end(line), name))
        as_buf_add(text, line.p, line.n);
}

int as_key_file_revoke(const char *path, struct as_str name, as_ns wait, struct as_buf *err)
{
    struct as_buf text = {0};
    struct as_str rest, line;
    struct change c;
    int rc = begin_change(&c, path, false, wait, err);

    rest = as_buf_slice(&c.old);
    while (!rc && next_line(&rest, &line))
        keep_others(line, name, &text);
    if (!rc)
        keep_others(rest, name, &text);
    if (!rc && text.n == c.old.n) {
        as_buf_printf(err, "%s has no key with the name '%.*s'", path, AS_STR_CUT(name, 100));
        rc = AS_ENOTFOUND;
    } else if (!rc) {
        rc = replace(&c, &text, err);
    }
    end_change(&c);
    as_buf_fini(&text);
    return rc;
}
