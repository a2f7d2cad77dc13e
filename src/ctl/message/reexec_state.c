#include "ctl/message/reexec_state.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEY_MAX 64u

/* --- writing --- */

void as_reexec_writer_init(struct as_reexec_writer *out)
{
    as_buf_init(&out->text);
    as_buf_init(&out->fds);
    as_reexec_put_u64(out, "anyserve-supervisor", AS_REEXEC_FORMAT);
}

void as_reexec_writer_fini(struct as_reexec_writer *out)
{
    as_buf_fini(&out->text);
    as_buf_fini(&out->fds);
}

void as_reexec_put(struct as_reexec_writer *out, const char *key, struct as_str value)
{
    as_buf_printf(&out->text, "%s %zu:", key, value.n);
    as_buf_add(&out->text, value.p, value.n);
    as_buf_str(&out->text, "\n");
}

void as_reexec_put_u64(struct as_reexec_writer *out, const char *key, uint64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);

    as_reexec_put(out, key, (struct as_str){digits, (size_t)n});
}

void as_reexec_put_fd(struct as_reexec_writer *out, const char *key, int fd)
{
    if (fd < 0) {
        as_reexec_put(out, key, AS_STR(""));
        return;
    }
    as_reexec_put_u64(out, key, (uint64_t)fd);
    as_buf_add(&out->fds, &fd, sizeof(fd));
}

int as_reexec_make_memfd(const struct as_reexec_writer *out)
{
    int fd = memfd_create("anyserve-supervisor", MFD_CLOEXEC), e;
    size_t at = 0;

    while (fd >= 0 && at < out->text.n) {
        ssize_t n = write(fd, out->text.p + at, out->text.n - at);

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

void as_reexec_set_inherited(const struct as_reexec_writer *out, int file, bool on)
{
    int flags = on ? 0 : FD_CLOEXEC, fd;

    for (size_t at = 0; at < out->fds.n; at += sizeof(fd)) {
        memcpy(&fd, out->fds.p + at, sizeof(fd));
        fcntl(fd, F_SETFD, flags);
    }
    fcntl(file, F_SETFD, flags);
}

/* --- reading --- */

static void fail_reading(struct as_reexec_reader *in, const char *what, const char *key,
                         const char *why)
{
    if (in->failed)
        return;
    in->failed = true;
    in->rest = (struct as_str){0};
    as_buf_str(in->err, "the running supervisor's state cannot be read: ");
    as_buf_printf(in->err, "%s'%s' %s", what, key, why);
}

void as_reexec_fail(struct as_reexec_reader *in, const char *key, const char *why)
{
    fail_reading(in, "", key, why);
}

/* Cuts the text before the first `end` off the rest; at most KEY_MAX bytes. False: there is none.
 */
static bool cut_until(struct as_reexec_reader *in, char end, struct as_str *ret_s)
{
    const char *p = memchr(in->rest.p, end, AS_MIN(in->rest.n, (size_t)KEY_MAX));

    if (!p)
        return false;
    *ret_s = (struct as_str){in->rest.p, (size_t)(p - in->rest.p)};
    in->rest = (struct as_str){p + 1, in->rest.n - ret_s->n - 1};
    return true;
}

struct as_str as_reexec_get(struct as_reexec_reader *in, const char *key)
{
    struct as_str name, digits, value;
    uint64_t n;

    if (in->failed)
        return AS_STR("");
    if (!in->rest.n || !cut_until(in, ' ', &name) || !as_str_eq(name, as_str_of(key))) {
        fail_reading(in, "it has no ", key, "where it is expected");
        return AS_STR("");
    }
    if (!cut_until(in, ':', &digits) || as_str_u64(digits, &n) < 0 || n >= in->rest.n ||
        in->rest.p[n] != '\n') {
        as_reexec_fail(in, key, "has an invalid length");
        return AS_STR("");
    }
    value = (struct as_str){in->rest.p, (size_t)n};
    in->rest = (struct as_str){value.p + n + 1, in->rest.n - (size_t)n - 1};
    return value;
}

uint64_t as_reexec_get_u64(struct as_reexec_reader *in, const char *key, uint64_t max)
{
    struct as_str s = as_reexec_get(in, key);
    uint64_t v;

    if (in->failed)
        return 0;
    if (as_str_u64(s, &v) < 0 || v > max) {
        as_reexec_fail(in, key, "is no number in its range");
        return 0;
    }
    return v;
}

int as_reexec_get_fd(struct as_reexec_reader *in, const char *key)
{
    struct as_str s = as_reexec_get(in, key);
    uint64_t fd;

    if (in->failed || !s.n)
        return -1;
    if (as_str_u64(s, &fd) < 0 || fd < 3 || fd > INT32_MAX ||
        (!in->dry && fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)) {
        as_reexec_fail(in, key, "is no open descriptor");
        return -1;
    }
    return (int)fd;
}

char *as_reexec_get_dup(struct as_reexec_reader *in, const char *key)
{
    return as_str_dup(as_reexec_get(in, key));
}

int as_reexec_reader_load(struct as_reexec_reader *ret_in, int fd, bool dry, struct as_buf *err)
{
    struct as_reexec_reader in = {.err = err, .dry = dry};
    char part[16384];
    ssize_t n;

    while ((n = pread(fd, part, sizeof(part), (off_t)in.text.n)) > 0 && in.text.n < AS_REEXEC_MAX)
        as_buf_add(&in.text, part, (size_t)n);
    if (n < 0)
        as_buf_printf(err, "the running supervisor's state cannot be read: %s", strerror(errno));
    else if (n > 0)
        as_buf_printf(err, "the running supervisor's state has more than %zu bytes", AS_REEXEC_MAX);
    *ret_in = in;
    ret_in->rest = as_buf_slice(&ret_in->text);
    if (n == 0 && as_reexec_get_u64(ret_in, "anyserve-supervisor", UINT64_MAX) != AS_REEXEC_FORMAT)
        as_reexec_fail(ret_in, "anyserve-supervisor", "is another format than this version's");
    if (n > 0)
        as_reexec_fail(ret_in, "state", "is too long");
    if (n == 0 && !ret_in->failed)
        return 0;
    as_reexec_reader_fini(ret_in);
    return n < 0 ? AS_EIO : AS_EPROTO;
}

void as_reexec_reader_fini(struct as_reexec_reader *in)
{
    as_buf_fini(&in->text);
}
