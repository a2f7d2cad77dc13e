#include "wire/frame/frame_services.h"

#include "base/err.h"
#include "wire/frame/frame_le.h"

#define FIXED 8u
#define ROW   4u /* of each method: length of its path (2), flags (1), zero (1) */

static_assert(AS_FRAME_SERVICES_MAX <= AS_FRAME_MAX, "one frame");

bool as_frame_service_is_path(struct as_str path)
{
    const char *slash;
    size_t slashes = 0;

    if (path.n < 4 || path.n > AS_FRAME_SERVICE_PATH || path.p[0] != '/')
        return false;
    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] <= ' ' || path.p[i] > '~')
            return false;
        slashes += path.p[i] == '/';
    }
    slash = memchr(path.p + 1, '/', path.n - 1);
    return slashes == 2 && slash > path.p + 1 && slash + 1 < path.p + path.n;
}

/* Is a before b? */
static bool is_before(struct as_str a, struct as_str b)
{
    int c = memcmp(a.p, b.p, AS_MIN(a.n, b.n));

    return c ? c < 0 : a.n < b.n;
}

static const char *check_method(const struct as_frame_services *s, uint32_t i)
{
    const struct as_frame_service_method *m = &s->methods[i];

    if (!as_frame_service_is_path(m->path))
        return "services: a path is not /package.Service/Method";
    if (m->flags & ~(AS_SERVICE_F_INPUTS | AS_SERVICE_F_PARTS))
        return "services: reserved bits are set";
    if (i && !is_before(m[-1].path, m->path))
        return "services: the methods are not in order";
    return NULL;
}

int as_frame_put_services(struct as_outq *q, const struct as_frame_services *s)
{
    size_t n = FIXED + s->descriptors.n;
    uint8_t *p;

    if (s->n > AS_FRAME_SERVICE_METHODS || s->descriptors.n > AS_FRAME_SERVICES_MAX)
        return AS_EINVALID;
    for (uint32_t i = 0; i < s->n; i++) {
        if (check_method(s, i))
            return AS_EINVALID;
        n += ROW + s->methods[i].path.n;
    }
    if (n > AS_FRAME_SERVICES_MAX)
        return AS_EINVALID;
    p = put_frame(q, AS_FRAME_SERVICES, 0, n);
    put_header(p - AS_FRAME_HEADER, AS_FRAME_SERVICES, AS_FRAME_F_OPTIONAL, 0, (uint32_t)n);
    put32(p, s->n);
    put32(p + 4, (uint32_t)s->descriptors.n);
    p += FIXED;
    for (uint32_t i = 0; i < s->n; i++) {
        struct as_str path = s->methods[i].path;

        put32(p, (uint32_t)path.n | s->methods[i].flags << 16);
        memcpy(p + ROW, path.p, path.n);
        p += ROW + path.n;
    }
    if (s->descriptors.n)
        memcpy(p, s->descriptors.p, s->descriptors.n);
    return 0;
}

static int refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return AS_EPROTO;
}

int as_frame_get_services(const struct as_frame *f, struct as_arena *a,
                          struct as_frame_services *ret_s, const char **ret_why)
{
    struct as_frame_service_method *methods;
    struct as_frame_services s;
    const uint8_t *p = f->p + FIXED, *end = f->p + f->n;
    uint32_t descriptors;

    *ret_why = "";
    if (f->n < FIXED || f->n > AS_FRAME_SERVICES_MAX)
        return refuse(ret_why, "services: the frame's length is wrong");
    s.n = get32(f->p);
    descriptors = get32(f->p + 4);
    if (s.n > AS_FRAME_SERVICE_METHODS)
        return refuse(ret_why, "services: more than 1024 methods");
    methods = as_arena_alloc(a, s.n * sizeof(*methods), 8);
    if (!methods && s.n)
        return AS_ENOMEM;
    s.methods = methods;
    for (uint32_t i = 0; i < s.n; i++) {
        const char *why;
        uint32_t row;

        if (end - p < (ptrdiff_t)ROW || end - p - ROW < get16(p))
            return refuse(ret_why, "services: cut short");
        row = get32(p);
        methods[i] =
            (struct as_frame_service_method){{(const char *)p + ROW, row & 0xffff}, row >> 16};
        why = check_method(&s, i);
        if (why)
            return refuse(ret_why, why);
        p += ROW + methods[i].path.n;
    }
    if ((size_t)(end - p) != descriptors)
        return refuse(ret_why, "services: the descriptors' length is wrong");
    s.descriptors = (struct as_str){(const char *)p, descriptors};
    *ret_s = s;
    return 0;
}
