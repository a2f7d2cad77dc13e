#include "ctl/message/reexec_state.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEY_MAX 64u

/* --- writing --- */

void as_reexec_writer_init(struct as_reexec_writer *c)
{
    as_buf_init(&c->text);
    as_buf_init(&c->fds);
    as_reexec_put_u64(c, "anyserve-supervisor", AS_REEXEC_FORMAT);
}

void as_reexec_writer_fini(struct as_reexec_writer *c)
{
    as_buf_fini(&c->text);
    as_buf_fini(&c->fds);
}

void as_reexec_put(struct as_reexec_writer *c, const char *key, struct as_str value)
{
    as_buf_printf(&c->text, "%s %zu:", key, value.n);
    as_buf_add(&c->text, value.p, value.n);
    as_buf_str(&c->text, "\n");
}

void as_reexec_put_u64(struct as_reexec_writer *c, const char *key, uint64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);

    as_reexec_put(c, key, (struct as_str){digits, (size_t)n});
}

void as_reexec_put_fd(struct as_reexec_writer *c, const char *key, int fd)
{
    if (fd < 0) {
        as_reexec_put(c, key, AS_STR(""));
        return;
    }
    as_reexec_put_u64(c, key, (uint64_t)fd);
    as_buf_add(&c->fds, &fd, sizeof(fd));
}

int as_reexec_make_memfd(const struct as_reexec_writer *c)
{
    int fd = memfd_create("anyserve-supervisor", MFD_CLOEXEC), e;
    size_t at = 0;

    while (fd >= 0 && at < c->text.n) {
        ssize_t n = write(fd, c->text.p + at, c->text.n - at);

        if (n < 0 && errno != EINTR) {
            e = errno;
            close(fd);
            errno = e;
            return -1;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return fd;
}

void as_reexec_set_inherited(const struct as_reexec_writer *c, int file, bool on)
{
    int flags = on ? 0 : FD_CLOEXEC, fd;

    for (size_t at = 0; at < c->fds.n; at += sizeof(fd)) {
        memcpy(&fd, c->fds.p + at, sizeof(fd));
        fcntl(fd, F_SETFD, flags);
    }
    fcntl(file, F_SETFD, flags);
}

/* --- reading --- */

static void fail_reading(struct as_reexec_reader *c, const char *what, const char *key,
                         const char *why)
{
    if (c->failed)
        return;
    c->failed = true;
    c->rest = (struct as_str){0};
    as_buf_str(c->err, "the running supervisor's state cannot be read: ");
    as_buf_printf(c->err, "%s'%s' %s", what, key, why);
}

void as_reexec_fail(struct as_reexec_reader *c, const char *key, const char *why)
{
    fail_reading(c, "", key, why);
}

/* Cuts the text before the first `end` off the rest; at most KEY_MAX bytes. False: there is none.
 */
static bool cut_until(struct as_reexec_reader *c, char end, struct as_str *ret_s)
{
    const char *p = memchr(c->rest.p, end, AS_MIN(c->rest.n, (size_t)KEY_MAX));

    if (!p)
        return false;
    *ret_s = (struct as_str){c->rest.p, (size_t)(p - c->rest.p)};
    c->rest = (struct as_str){p + 1, c->rest.n - ret_s->n - 1};
    return true;
}

struct as_str as_reexec_get(struct as_reexec_reader *c, const char *key)
{
    struct as_str name, digits, value;
    uint64_t n;

    if (c->failed)
        return AS_STR("");
    if (!c->rest.n || !cut_until(c, ' ', &name) || !as_str_eq(name, as_str_of(key))) {
        fail_reading(c, "it has no ", key, "where it is expected");
        return AS_STR("");
    }
    if (!cut_until(c, ':', &digits) || as_str_u64(digits, &n) < 0 || n >= c->rest.n ||
        c->rest.p[n] != '\n') {
        as_reexec_fail(c, key, "has an invalid length");
        return AS_STR("");
    }
    value = (struct as_str){c->rest.p, (size_t)n};
    c->rest = (struct as_str){value.p + n + 1, c->rest.n - (size_t)n - 1};
    return value;
}

uint64_t as_reexec_get_u64(struct as_reexec_reader *c, const char *key, uint64_t max)
{
    struct as_str s = as_reexec_get(c, key);
    uint64_t v;

    if (c->failed)
        return 0;
    if (as_str_u64(s, &v) < 0 || v > max) {
        as_reexec_fail(c, key, "is no number in its range");
        return 0;
    }
    return v;
}

int as_reexec_get_fd(struct as_reexec_reader *c, const char *key)
{
    struct as_str s = as_reexec_get(c, key);
    uint64_t fd;

    if (c->failed || !s.n)
        return -1;
    if (as_str_u64(s, &fd) < 0 || fd < 3 || fd > INT32_MAX ||
        (!c->dry && fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)) {
        as_reexec_fail(c, key, "is no open descriptor");
        return -1;
    }
    return (int)fd;
}

char *as_reexec_get_dup(struct as_reexec_reader *c, const char *key)
{
    return as_str_dup(as_reexec_get(c, key));
}

int as_reexec_reader_load(struct as_reexec_reader *ret_c, int fd, bool dry, struct as_buf *err)
{
    struct as_reexec_reader c = {.err = err, .dry = dry};
    char part[16384];
    ssize_t n;

    while ((n = pread(fd, part, sizeof(part), (off_t)c.text.n)) > 0 && c.text.n < AS_REEXEC_MAX)
        as_buf_add(&c.text, part, (size_t)n);
    if (n < 0)
        as_buf_printf(err, "the running supervisor's state cannot be read: %s", strerror(errno));
    else if (n > 0)
        as_buf_printf(err, "the running supervisor's state has more than %zu bytes", AS_REEXEC_MAX);
    *ret_c = c;
    ret_c->rest = as_buf_slice(&ret_c->text);
    if (n == 0 && as_reexec_get_u64(ret_c, "anyserve-supervisor", UINT64_MAX) != AS_REEXEC_FORMAT)
        as_reexec_fail(ret_c, "anyserve-supervisor", "is another format than this version's");
    if (n > 0)
        as_reexec_fail(ret_c, "state", "is too long");
    if (n == 0 && !ret_c->failed)
        return 0;
    as_reexec_reader_fini(ret_c);
    return n < 0 ? AS_EIO : AS_EPROTO;
}

void as_reexec_reader_fini(struct as_reexec_reader *c)
{
    as_buf_fini(&c->text);
}
