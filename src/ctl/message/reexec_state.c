#include "ctl/message/reexec_state.h"

#include "ctl/message/reexec_former.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAD(digit) "anyserve-supervisor 1:" digit "\n"
#define HEAD_BYTES  (sizeof(HEAD("4")) - 1)

_Static_assert(AS_REEXEC_FORMAT == 4, "the line in front of the state");

/* --- writing --- */

void *as_reexec_new(const ProtobufCMessageDescriptor *type)
{
    void *m = as_xalloc(type->sizeof_message);

    type->message_init(m);
    return m;
}

void as_reexec_append(void *rows, size_t *n, const void *element, size_t size)
{
    uint8_t *array;

    memcpy(&array, rows, sizeof(array));
    array = as_xrealloc(array, (*n + 1) * size);
    memcpy(array + *n * size, element, size);
    memcpy(rows, &array, sizeof(array));
    *n += 1;
}

ProtobufCBinaryData as_reexec_bytes(struct as_str s)
{
    return (ProtobufCBinaryData){s.n, (uint8_t *)as_str_dup(s)};
}

uint32_t as_reexec_put_fd(As__Supervisor *state, int fd)
{
    if (fd < 0)
        return 0;
    AS_REEXEC_APPEND(state, fds, (uint32_t)fd);
    return (uint32_t)fd;
}

int as_reexec_make_memfd(const As__Supervisor *state)
{
    int fd = memfd_create("anyserve-supervisor", MFD_CLOEXEC), e;
    size_t n = HEAD_BYTES + as__supervisor__get_packed_size(state), at = 0;
    uint8_t *p = as_xalloc(n);

    memcpy(p, HEAD("4"), HEAD_BYTES);
    as__supervisor__pack(state, p + HEAD_BYTES);
    while (fd >= 0 && at < n) {
        ssize_t written = write(fd, p + at, n - at);

        if (written < 0 && errno != EINTR) {
            e = errno;
            close(fd);
            errno = e;
            fd = -1;
        }
        at += written > 0 ? (size_t)written : 0;
    }
    e = errno;
    free(p);
    errno = e;
    return fd;
}

void as_reexec_set_inherited(const As__Supervisor *state, int file, bool on)
{
    int flags = on ? 0 : FD_CLOEXEC;

    for (size_t i = 0; i < state->n_fds; i++)
        fcntl((int)state->fds[i], F_SETFD, flags);
    fcntl(file, F_SETFD, flags);
}

void as_reexec_free(As__Supervisor *state)
{
    if (state)
        as__supervisor__free_unpacked(state, NULL);
}

/* --- reading --- */

void as_reexec_fail(struct as_reexec_reader *in, const char *key, const char *why)
{
    if (in->failed)
        return;
    in->failed = true;
    as_buf_printf(in->err, "the running supervisor's state cannot be read: '%s' %s", key, why);
}

int as_reexec_take_fd(struct as_reexec_reader *in, const char *key, uint32_t fd)
{
    As__Supervisor *s = in->state;

    if (in->failed || !fd)
        return -1;
    for (size_t i = 0; i < s->n_fds; i++) {
        if (s->fds[i] != fd)
            continue;
        if (fd < 3 || fd > INT32_MAX || (!in->dry && fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0))
            break;
        s->fds[i] = s->fds[--s->n_fds];
        return (int)fd;
    }
    as_reexec_fail(in, key, "is no open descriptor");
    return -1;
}

void as_reexec_close_unknown_fds(struct as_reexec_reader *in)
{
    for (size_t i = 0; i < in->state->n_fds && !in->dry && !in->failed; i++) {
        if (in->state->fds[i] >= 3)
            close((int)in->state->fds[i]);
    }
    in->state->n_fds = 0;
}

static void parse_state(struct as_reexec_reader *in, struct as_str text)
{
    struct as_str body = {text.p + HEAD_BYTES, text.n - HEAD_BYTES};

    if (text.n >= HEAD_BYTES && memcmp(text.p, HEAD("4"), HEAD_BYTES) == 0)
        in->state = as__supervisor__unpack(NULL, body.n, (const uint8_t *)body.p);
    else if (text.n >= HEAD_BYTES && memcmp(text.p, HEAD("3"), HEAD_BYTES) == 0)
        as_reexec_former_read(in, body);
    else
        as_reexec_fail(in, "anyserve-supervisor", "is another format than this version's");
    if (!in->state)
        as_reexec_fail(in, "state", "is no message of proto/state.proto");
}

int as_reexec_reader_load(struct as_reexec_reader *ret_in, int fd, bool dry, struct as_buf *err)
{
    struct as_reexec_reader in = {.err = err, .dry = dry};
    struct as_buf text = {0};
    char part[16384];
    ssize_t n;

    while ((n = pread(fd, part, sizeof(part), (off_t)text.n)) > 0 && text.n < AS_REEXEC_MAX)
        as_buf_add(&text, part, (size_t)n);
    if (n < 0)
        as_buf_printf(err, "the running supervisor's state cannot be read: %s", strerror(errno));
    else if (n > 0)
        as_buf_printf(err, "the running supervisor's state has more than %zu bytes", AS_REEXEC_MAX);
    else
        parse_state(&in, as_buf_slice(&text));
    as_buf_fini(&text);
    *ret_in = in;
    if (n == 0 && !in.failed)
        return 0;
    as_reexec_reader_fini(ret_in);
    return n < 0 ? AS_EIO : AS_EPROTO;
}

void as_reexec_reader_fini(struct as_reexec_reader *in)
{
    as_reexec_free(in->state);
    in->state = NULL;
}
