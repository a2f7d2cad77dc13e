#include "io/tls/tls_input.h"

#include "base/counter.h"
#include "base/err.h"
#include "base/memory/live.h"
#include "base/memory/slab.h"

#include <errno.h>
#include <openssl/ssl3.h>
#include <string.h>
#include <sys/socket.h>

/* Of a record: type, version, length (RFC 8446 §5.1). */
#define HEAD 5u
/* The longest record: that of TLS 1.2 (RFC 5246 §6.2.3). */
#define RECORD_MAX (HEAD + (16u << 10) + (2u << 10))

static_assert(RECORD_MAX <= AS_TLS_RECEIVE, "a record fits");

void as_tls_input_begin(struct as_tls_input *in, struct as_tls_received *r)
{
    r->at = 0;
    r->n = in->n_kept;
    r->drained = false;
    if (!in->kept)
        return;
    memcpy(r->bytes, in->kept, in->n_kept);
    as_tls_input_free(in);
}

int as_tls_input_end(struct as_tls_input *in, struct as_tls_received *r)
{
    const uint8_t *p = r->bytes + r->at;
    size_t n = r->n - r->at;

    r->at = r->n = 0;
    if (!n)
        return 0;
    in->kept = as_slab_get(n);
    if (!in->kept)
        return AS_ENOMEM;
    memcpy(in->kept, p, n);
    in->n_kept = n;
    as_live_add(n);
    return 0;
}

void as_tls_input_free(struct as_tls_input *in)
{
    as_live_sub(in->n_kept);
    as_slab_put(in->kept);
    in->kept = NULL;
    in->n_kept = 0;
}

enum start { RECORD, PART_OF_RECORD, ALIEN };

/* What n bytes begin with. RECORD: sets how long it is. */
static enum start look(const uint8_t *p, size_t n, size_t *ret_n)
{
    size_t length;

    if (n >= 1 && (p[0] < SSL3_RT_CHANGE_CIPHER_SPEC || p[0] > SSL3_RT_APPLICATION_DATA))
        return ALIEN;
    if (n >= 2 && p[1] != SSL3_VERSION_MAJOR)
        return ALIEN;
    if (n < HEAD)
        return PART_OF_RECORD;
    length = HEAD + ((size_t)p[3] << 8 | p[4]);
    if (length > RECORD_MAX)
        return ALIEN;
    if (n < length)
        return PART_OF_RECORD;
    *ret_n = length;
    return RECORD;
}

bool as_tls_input_is_ready(const struct as_tls_input *in, const struct as_tls_received *r)
{
    size_t n = r->n - r->at, length;

    return in->n_record || (n && in->is_alien) ||
           look(r->bytes + r->at, n, &length) != PART_OF_RECORD;
}

/* One system call. */
static void receive(struct as_tls_input *in, struct as_tls_received *r, int fd,
                    struct as_loop *loop)
{
    size_t room;
    ssize_t k;

    memmove(r->bytes, r->bytes + r->at, r->n - r->at);
    r->n -= r->at;
    r->at = 0;
    room = sizeof(r->bytes) - r->n;
    do {
        as_counter_add(&loop->stat.reads, 1);
        k = recv(fd, r->bytes + r->n, room, MSG_DONTWAIT);
    } while (k < 0 && errno == EINTR);
    if (k == 0)
        in->end = AS_EOF;
    else if (k > 0)
        r->n += (size_t)k;
    else if (errno != EAGAIN)
        in->end = AS_EIO;
    r->drained = k < (ssize_t)room;
}

bool as_tls_input_receive(struct as_tls_input *in, struct as_tls_received *r, int fd,
                          struct as_loop *loop)
{
    if (!as_tls_input_is_ready(in, r) && !in->end && !r->drained)
        receive(in, r, fd, loop);
    return as_tls_input_is_ready(in, r) || in->end;
}

int as_tls_input_take(struct as_tls_input *in, struct as_tls_received *r, void *p, int n)
{
    size_t available = r->n - r->at, k;

    if (!as_tls_input_is_ready(in, r) && !(available && in->end))
        return in->end ? in->end : AS_EAGAIN;
    if (!in->n_record && !in->is_alien) /* of a record that the end has cut, all that came */
        in->is_alien = look(r->bytes + r->at, available, &in->n_record) != RECORD;
    k = AS_MIN((size_t)n, in->is_alien ? available : in->n_record);
    memcpy(p, r->bytes + r->at, k);
    r->at += k;
    if (!in->is_alien)
        in->n_record -= k;
    return (int)k;
}
