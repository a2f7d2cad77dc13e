/* bench/load_headers.c — see the header. */
#include "load_headers.h"

void as_load_headers_init(struct as_load_headers *h)
{
    *h = (struct as_load_headers){0};
    AS_ASSERT(nghttp2_hd_inflate_new(&h->inflater) == 0);
}

void as_load_headers_fini(struct as_load_headers *h)
{
    nghttp2_hd_inflate_del(h->inflater);
}

static bool is(const uint8_t *p, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(p, text, n) == 0;
}

/* A status of three digits or grpc-status; anything else is none, which is judged as a fault. */
static int number(const nghttp2_nv *nv)
{
    uint64_t v;

    return as_str_u64((struct as_str){(const char *)nv->value, nv->valuelen}, &v) == 0 && v < 1000
               ? (int)v
               : AS_LOAD_NO_STATUS;
}

static void take_field(struct as_load_head *head, const nghttp2_nv *nv)
{
    if (is(nv->name, nv->namelen, ":status"))
        head->http_status = number(nv);
    else if (is(nv->name, nv->namelen, "grpc-status"))
        head->grpc_status = number(nv);
    else if (is(nv->name, nv->namelen, "content-type"))
        head->is_grpc = nv->valuelen >= 16 && memcmp(nv->value, "application/grpc", 16) == 0;
    else if (is(nv->name, nv->namelen, "grpc-message"))
        snprintf(head->message, sizeof(head->message), "%.*s", (int)nv->valuelen,
                 (const char *)nv->value);
}

/* The whole block must be decoded: the table is shared by all blocks of the connection. */
static bool inflate(struct as_load_headers *h, const uint8_t *p, size_t n,
                    struct as_load_head *head)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(h->inflater, &nv, &flags, p, n, 1);

        if (used < 0)
            return false;
        p += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            take_field(head, &nv);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
        if (n == 0 && !(flags & NGHTTP2_HD_INFLATE_EMIT))
            return false;
    }
    nghttp2_hd_inflate_end_headers(h->inflater);
    return true;
}

/* Every representation with its top bit set is an indexed field, the only kind that changes
 * nothing. */
static bool is_references_only(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(p[i] & 0x80))
            return false;
    return true;
}

const struct as_load_head *as_load_headers_decode(struct as_load_headers *h, const uint8_t *p,
                                                  size_t n)
{
    /* one thread, and the caller reads it before the next block */
    static struct as_load_head scratch;
    bool can_keep = n <= sizeof(h->memo[0].block) && is_references_only(p, n);
    struct as_load_head *head = &scratch;

    /* Equal blocks mean the same as long as the table has not changed; with references only it has
     * not. A server's answers are
     * mostly the same few blocks. */
    if (can_keep) {
        for (uint32_t i = 0; i < h->n_memo; i++)
            if (h->memo[i].n == n && memcmp(h->memo[i].block, p, n) == 0)
                return &h->memo[i].head;
        if (h->n_memo == AS_COUNT(h->memo))
            /* full: start over */
            h->n_memo = 0;
        head = &h->memo[h->n_memo].head;
    }
    *head =
        (struct as_load_head){.http_status = AS_LOAD_NO_STATUS, .grpc_status = AS_LOAD_NO_STATUS};
    if (!inflate(h, p, n, head))
        return NULL;
    /* it may have changed the table: what was remembered may mean something else now */
    if (!can_keep) {
        h->n_memo = 0;
        return head;
    }
    h->memo[h->n_memo].n = (uint8_t)n;
    memcpy(h->memo[h->n_memo].block, p, n);
    h->n_memo++;
    return head;
}
