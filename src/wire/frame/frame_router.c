#include "wire/frame/frame_router.h"

#include "base/err.h"
#include "wire/frame/frame_le.h"

#define FIXED                                                                                      \
    16u         /* length of the policy (4), of the header (4), number of entries (4), zero (4)    \
                 */
#define ROW 16u /* key (4), zero (4), value (8) */

const struct as_frame_router_range as_frame_router_ranges[AS_FRAME_ROUTER_END] = {
    [AS_FRAME_ROUTER_MAX_WAIT] = {0, 3600 * AS_SEC},
    [AS_FRAME_ROUTER_VIRTUAL_NODES] = {1, 1000},
    [AS_FRAME_ROUTER_FALLBACKS] = {0, 7},
    [AS_FRAME_ROUTER_BOUND] = {100, 10000},
    [AS_FRAME_ROUTER_SESSION_TTL] = {AS_MS, 365 * (86400 * AS_SEC)},
    [AS_FRAME_ROUTER_MAX_SESSIONS] = {1, 1000000},
    [AS_FRAME_ROUTER_PREFER_LOCAL] = {0, 1},
    [AS_FRAME_ROUTER_ASK_FIRST] = {AS_MS, 3600 * AS_SEC},
    [AS_FRAME_ROUTER_ASK_FACTOR] = {100, 10000},
    [AS_FRAME_ROUTER_ASK_MAX] = {AS_MS, 3600 * AS_SEC},
};

bool as_frame_router_header(char ret_name[AS_FRAME_ROUTER_HEADER + 1], struct as_str name)
{
    if (!name.n || name.n > AS_FRAME_ROUTER_HEADER)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c == '_')
            c = '-';
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
        ret_name[i] = c;
    }
    memset(ret_name + name.n, 0, AS_FRAME_ROUTER_HEADER + 1 - name.n);
    return true;
}

static bool is_policy(struct as_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'))
            return false;
    }
    return name.n <= AS_FRAME_ROUTER_POLICY;
}

bool as_frame_router_set(struct as_frame_router *r, enum as_frame_router_key key, uint64_t value)
{
    if (value < as_frame_router_ranges[key].min || value > as_frame_router_ranges[key].max)
        return false;
    r->has |= 1u << key;
    r->value[key] = value;
    return true;
}

bool as_frame_router_eq(const struct as_frame_router *a, const struct as_frame_router *b)
{
    for (uint32_t key = 1; key < AS_FRAME_ROUTER_END; key++) {
        if ((a->has >> key & 1) && a->value[key] != b->value[key])
            return false;
    }
    return a->has == b->has && strcmp(a->policy, b->policy) == 0 &&
           strcmp(a->session_header, b->session_header) == 0;
}

bool as_frame_router_is_empty(const struct as_frame_router *r)
{
    return !r->policy[0] && !r->session_header[0] && !r->has;
}

void as_frame_put_router(struct as_outq *q, const struct as_frame_router *r)
{
    struct as_str policy = as_str_of(r->policy), header = as_str_of(r->session_header);
    uint32_t rows = (uint32_t)__builtin_popcount(r->has);
    size_t n = FIXED + rows * (size_t)ROW + policy.n + header.n;
    uint8_t *p = put_frame(q, AS_FRAME_ROUTER, 0, n);

    AS_ASSERT(is_policy(policy));
    /* a dispatcher that does not know this frame still serves the worker */
    put_header(p - AS_FRAME_HEADER, AS_FRAME_ROUTER, AS_FRAME_F_OPTIONAL, 0, (uint32_t)n);
    put32(p, (uint32_t)policy.n);
    put32(p + 4, (uint32_t)header.n);
    put32(p + 8, rows);
    put32(p + 12, 0);
    p += FIXED;
    for (uint32_t key = 1; key < AS_FRAME_ROUTER_END; key++) {
        if (!(r->has >> key & 1))
            continue;
        put32(p, key);
        put32(p + 4, 0);
        put64(p + 8, r->value[key]);
        p += ROW;
    }
    memcpy(p, policy.p, policy.n);
    memcpy(p + policy.n, header.p, header.n);
}

static int get_row(const uint8_t *p, struct as_frame_router *r)
{
    uint32_t key = get32(p);

    if (!key || get32(p + 4))
        return AS_EPROTO;
    if (key >= AS_FRAME_ROUTER_END) /* of a later version */
        return 0;
    if ((r->has >> key & 1) || !as_frame_router_set(r, key, get64(p + 8)))
        return AS_EPROTO;
    return 0;
}

int as_frame_get_router(const struct as_frame *f, struct as_frame_router *ret_r)
{
    struct as_frame_router r;
    struct as_str policy, header;
    uint32_t rows;
    const uint8_t *texts;

    memset(&r, 0, sizeof(r));
    if (f->n < FIXED)
        return AS_EPROTO;
    policy.n = get32(f->p);
    header.n = get32(f->p + 4);
    rows = get32(f->p + 8);
    if (policy.n > AS_FRAME_ROUTER_POLICY || header.n > AS_FRAME_ROUTER_HEADER ||
        rows > AS_FRAME_ROUTER_ROWS || get32(f->p + 12) ||
        f->n != FIXED + rows * ROW + policy.n + header.n)
        return AS_EPROTO;
    for (uint32_t i = 0; i < rows; i++) {
        if (get_row(f->p + FIXED + i * (size_t)ROW, &r))
            return AS_EPROTO;
    }
    texts = f->p + FIXED + rows * (size_t)ROW;
    policy.p = (const char *)texts;
    header.p = (const char *)texts + policy.n;
    if (!is_policy(policy) || (header.n && !as_frame_router_header(r.session_header, header)))
        return AS_EPROTO;
    memcpy(r.policy, policy.p, policy.n);
    *ret_r = r;
    return 0;
}
