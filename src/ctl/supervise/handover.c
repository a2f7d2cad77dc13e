#include "ctl/supervise/handover.h"

#include <unistd.h>

/* we pass a handful from 3 on; a list with a larger number is not ours */
#define FD_MAX 1023u

static const char *const names[AS_HANDOVER_KINDS] = {
#define X(id, name) [AS_HANDOVER_##id] = (name),
    AS_HANDOVER_TABLE(X)
#undef X
};

const char *as_handover_name(enum as_handover_kind kind)
{
    return names[kind];
}

int as_handover_kind_of(struct as_str name, enum as_handover_kind *ret_kind)
{
    for (size_t k = 0; k < AS_HANDOVER_KINDS; k++) {
        if (as_str_eq(name, as_str_of(names[k]))) {
            *ret_kind = (enum as_handover_kind)k;
            return 0;
        }
    }
    return AS_EINVALID;
}

void as_handover_add(struct as_handover *h, enum as_handover_kind kind, int fd)
{
    AS_ASSERT(h->n < AS_HANDOVER_MAX);
    h->kind[h->n] = kind;
    h->fd[h->n++] = fd;
}

void as_handover_close(struct as_handover *h)
{
    while (h->n > 0)
        close(h->fd[--h->n]);
}

/* Numbers are positions: as_proc_spawn puts h->fd[i] at 3 + i in the child. */
void as_handover_write(const struct as_handover *h, struct as_buf *b)
{
    for (uint32_t i = 0; i < h->n; i++)
        as_buf_printf(b, "%s%s:%u", i ? "," : "", names[h->kind[i]], 3 + i);
}

/* Strict: with a wrong number the child would close or serve some other descriptor. */
static int read_entry(struct as_handover *h, struct as_str s)
{
    const char *colon = memchr(s.p, ':', s.n);
    enum as_handover_kind kind;
    uint64_t fd;

    if (!colon || h->n == AS_HANDOVER_MAX)
        return AS_EINVALID;
    if (as_str_u64((struct as_str){colon + 1, (size_t)(s.p + s.n - colon - 1)}, &fd) < 0 ||
        fd < 3 || fd > FD_MAX)
        return AS_EINVALID;
    if (as_handover_kind_of((struct as_str){s.p, (size_t)(colon - s.p)}, &kind) < 0)
        return AS_EINVALID;
    as_handover_add(h, kind, (int)fd);
    return 0;
}

int as_handover_parse(struct as_handover *ret_h, const char *text)
{
    struct as_handover h = {.n = 0};

    for (const char *p = text;;) {
        size_t n = strcspn(p, ",");

        if (read_entry(&h, (struct as_str){p, n}) < 0)
            return AS_EINVALID;
        if (!p[n])
            break;
        p += n + 1;
    }
    *ret_h = h;
    return 0;
}
