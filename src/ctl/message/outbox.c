#include "ctl/message/outbox.h"

#define LENGTH 2u /* bytes in front of each datagram */

void as_outbox_init(struct as_outbox *o, size_t limit)
{
    *o = (struct as_outbox){.limit = limit, .format = AS_CTL_FORMAT};
}

void as_outbox_fini(struct as_outbox *o)
{
    as_buf_fini(&o->wait);
}

size_t as_outbox_encode(const struct as_outbox *o, const struct as_ctl_message *m,
                        uint8_t out[AS_CTL_MESSAGE_MAX])
{
    struct as_ctl_message plain;

    if (o->format == AS_CTL_FORMAT)
        return as_ctl_encode(m, out);
    plain = as_ctl_plain(m);
    return o->format == AS_CTL_PLAIN_FORMAT ? as_ctl_encode(&plain, out)
                                            : as_ctl_former_encode(&plain, out);
}

int as_outbox_send(struct as_outbox *o, int fd, const struct as_ctl_message *m)
{
    uint8_t buf[LENGTH + AS_CTL_MESSAGE_MAX];
    size_t n = as_outbox_encode(o, m, buf + LENGTH);
    /* in order: FORGET must not overtake the TOKEN that it revokes */
    int rc = as_outbox_has_pending(o) ? AS_EAGAIN : as_ctl_send_bytes(fd, buf + LENGTH, n);

    if (rc != AS_EAGAIN)
        return rc;
    if (LENGTH + n > o->limit - o->wait.n)
        return AS_EFULL;
    buf[0] = (uint8_t)n;
    buf[1] = (uint8_t)(n >> 8);
    as_buf_add(&o->wait, buf, LENGTH + n);
    return 0;
}

int as_outbox_flush(struct as_outbox *o, int fd)
{
    size_t at = 0;
    int rc = 0;

    while (at < o->wait.n) {
        const uint8_t *p = o->wait.p + at;
        size_t n = (size_t)p[0] | (size_t)p[1] << 8;

        rc = as_ctl_send_bytes(fd, p + LENGTH, n);
        if (rc < 0)
            break;
        at += LENGTH + n;
    }
    as_buf_drop(&o->wait, at);
    return rc == AS_EOF ? AS_EOF : 0;
}
