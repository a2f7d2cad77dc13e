#include "ctl/state/key_file.h"

#include "ctl/state/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (64u << 10) /* bytes of one read; above AS_KEY_LINE_MAX */
#define WHAT  "file of API keys"

static const char header[] =
    "# API keys of AnyServe (--api-keys), one a line; written by `anyserve keys`, or by hand.\n"
    "# name=NAME sha256=DIGEST are required. The digest is the SHA-256 of the key, which is in no\n"
    "# file. Optional: tenant=NAME models=GLOB,… applications=GLOB,… rate=N/s (or /m, /h) burst=N\n"
    "# in-flight=N expires=2027-01-31T12:00:00Z. A server reads the file again when it changes.\n";

/* --- reading --- */

/* What is done with each line, which is not a comment. 0, or an error with a sentence. */
typedef int (*line_fn)(void *ctx, struct as_str line, struct as_buf *err);

static int with_place(const char *path, size_t number, int rc, struct as_buf *why,
                      struct as_buf *err)
{
    if (rc)
        as_buf_printf(err, "%s:%zu: %.*s", path, number, AS_STR_FMT(as_buf_slice(why)));
    as_buf_fini(why);
    return rc;
}

/* line: without "\n". */
static int read_line(const char *path, size_t number, struct as_str line, line_fn fn, void *ctx,
                     struct as_buf *err)
{
    struct as_buf why = {0};
    int rc = 0;

    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (!as_key_line_is_comment(line))
        rc = fn(ctx, line, &why);
    return with_place(path, number, rc, &why, err);
}

static int too_long(const char *path, size_t number, struct as_buf *err)
{
    struct as_buf why = {0};

    as_buf_printf(&why, "the line is longer than %u bytes", AS_KEY_LINE_MAX);
    return with_place(path, number, AS_EINVALID, &why, err);
}

static int read_lines_of(int fd, const char *path, char *buf, line_fn fn, void *ctx,
                         struct as_buf *err)
{
    size_t number = 1, have = 0;
    ssize_t n;
    int rc = 0;

    while (!rc && (n = read(fd, buf + have, CHUNK - have)) != 0) {
        struct as_str rest = {buf, have};
        const char *end;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            as_buf_printf(err, "cannot read the " WHAT " %s: %s", path, strerror(errno));
            return AS_EIO;
        }
        rest.n += (size_t)n;
        while (!rc && (end = memchr(rest.p, '\n', rest.n)) != NULL) {
            struct as_str line = {rest.p, (size_t)(end - rest.p)};

            rc = read_line(path, number++, line, fn, ctx, err);
            rest.n -= line.n + 1;
            rest.p = end + 1;
        }
        if (!rc && rest.n > AS_KEY_LINE_MAX + 1) /* and "\r" */
            rc = too_long(path, number, err);
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
    int lock;          /* the folder, locked: two changes at once would lose one */
    struct as_buf old; /* the text so far */
    uid_t uid;         /* owner of the file; (uid_t)-1: there is none */
    gid_t gid;
};

static int fail_io(struct as_buf *err, const char *verb, const char *path)
{
    as_buf_printf(err, "cannot %s %s: %s", verb, path, strerror(errno));
    return errno == ENOENT ? AS_ENOTFOUND : errno == EACCES || errno == EPERM ? AS_EDENIED : AS_EIO;
}

static int lock_folder(struct change *c, struct as_buf *err)
{
    char *copy = as_str_dup(as_str_of(c->path));
    const char *folder = dirname(copy);
    int rc = 0;

    c->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->lock < 0)
        rc = fail_io(err, "open the folder", folder);
    else if (flock(c->lock, LOCK_EX) < 0)
        rc = fail_io(err, "lock the folder", folder);
    free(copy);
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

static int begin_change(struct change *c, const char *path, bool make, struct as_buf *err)
{
    int rc;

    *c = (struct change){.path = realpath(path, NULL), .lock = -1};
    if (!c->path) /* there is no file yet */
        c->path = as_str_dup(as_str_of(path));
    rc = lock_folder(c, err);
    return rc ? rc : read_old(c, make, err);
}

static void end_change(struct change *c)
{
    free(c->path);
    as_buf_fini(&c->old);
    if (c->lock >= 0)
        close(c->lock);
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

/* The new file has the owner of the old one: root may edit that of a server without privileges. */
static bool fill(int fd, const struct change *c, const struct as_buf *text)
{
    return (c->uid == (uid_t)-1 || c->uid == geteuid() || fchown(fd, c->uid, c->gid) == 0) &&
           fchmod(fd, 0600) == 0 && write_all(fd, text) && fsync(fd) == 0;
}

/* The file is the old one or the new one, also after a loss of power. */
static int replace(const struct change *c, const struct as_buf *text, struct as_buf *err)
{
    char *fresh = as_str_format("%s.new", c->path);
    int fd, rc = 0;
    bool ok;

    unlink(fresh); /* of a change that was interrupted; the lock is ours */
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    ok = fd >= 0 && fill(fd, c, text) && rename(fresh, c->path) == 0;
    if (!ok)
        rc = fail_io(err, "write", fd < 0 ? fresh : c->path);
    if (fd >= 0 && !ok)
        unlink(fresh);
    if (fd >= 0)
        close(fd);
    if (ok && fsync(c->lock) < 0)
        rc = fail_io(err, "write the folder of", c->path);
    free(fresh);
    return rc;
}

static struct as_str next_line(struct as_str *rest)
{
    const char *end = memchr(rest->p, '\n', rest->n);
    struct as_str line = {rest->p, end ? (size_t)(end - rest->p) + 1 : rest->n};

    rest->p += line.n;
    rest->n -= line.n;
    return line;
}

static struct as_str without_end(struct as_str line)
{
    while (line.n && (line.p[line.n - 1] == '\n' || line.p[line.n - 1] == '\r'))
        line.n--;
    return line;
}

/* A server would not read a file with a bad line, so no key is added to one. */
static int check_old(const struct change *c, const char *path, const struct as_key_line *add,
                     struct as_buf *err)
{
    struct as_str rest = as_buf_slice(&c->old);
    int rc = 0;

    for (size_t number = 1; !rc && rest.n; number++) {
        struct as_str line = without_end(next_line(&rest));
        struct as_buf why = {0};
        struct as_key_line k;

        if (!as_key_line_is_comment(line))
            rc = as_key_line_parse(line, &k, &why);
        rc = with_place(path, number, rc, &why, err);
        if (rc || as_key_line_is_comment(line) || !as_str_eq(k.name, add->name))
            continue;
        as_buf_printf(err, "%s:%zu: there is a key with the name '%.*s' already", path, number,
                      AS_STR_FMT(add->name));
        rc = AS_EEXISTS;
    }
    return rc;
}

int as_key_file_add(const char *path, const struct as_key_line *k, struct as_buf *err)
{
    struct change c;
    int rc = begin_change(&c, path, true, err);

    if (!rc)
        rc = check_old(&c, path, k, err);
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

int as_key_file_revoke(const char *path, struct as_str name, struct as_buf *err)
{
    struct as_buf text = {0};
    struct as_str rest;
    struct change c;
    int rc = begin_change(&c, path, false, err);

    rest = as_buf_slice(&c.old);
    while (!rc && rest.n) {
        struct as_str line = next_line(&rest);

        if (!is_of(without_end(line), name))
            as_buf_add(&text, line.p, line.n);
    }
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
