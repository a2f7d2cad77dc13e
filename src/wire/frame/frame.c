#include "wire/frame/frame.h"

#include "base/err.h"
#include "wire/frame/frame_le.h"

#define FLAGS_KNOWN (AS_FRAME_F_END | AS_FRAME_F_MSG | AS_FRAME_F_OPTIONAL)

static_assert(offsetof(struct as_page, magic) == 0, "specification");
static_assert(offsetof(struct as_page, version) == 4, "specification");
static_assert(offsetof(struct as_page, last_started) == 8, "specification");
static_assert(offsetof(struct as_page, started) == 16, "specification");
static_assert(offsetof(struct as_page, finished) == 24, "specification");
static_assert(offsetof(struct as_page, clock) == 32, "specification");
static_assert(offsetof(struct as_page, busy_since) == 40, "specification");
static_assert(offsetof(struct as_page, lock) == 64, "specification");
static_assert(offsetof(struct as_page, stat) == 128, "specification");
static_assert(sizeof(struct as_page_stat) == 64, "specification");
static_assert(sizeof(struct as_page) <= AS_PAGE_SIZE, "specification");

struct as_page_stat as_page_stat_of(const struct as_page *p)
{
    const struct as_page_stat *s = &p->stat;

    return (struct as_page_stat){.wakes = __atomic_load_n(&s->wakes, __ATOMIC_RELAXED),
                                 .reads = __atomic_load_n(&s->reads, __ATOMIC_RELAXED),
                                 .writes = __atomic_load_n(&s->writes, __ATOMIC_RELAXED),
                                 .waits = __atomic_load_n(&s->waits, __ATOMIC_RELAXED),
                                 .others = __atomic_load_n(&s->others, __ATOMIC_RELAXED),
                                 .calls = __atomic_load_n(&s->calls, __ATOMIC_RELAXED),
                                 .cancels = __atomic_load_n(&s->cancels, __ATOMIC_RELAXED),
                                 .live = __atomic_load_n(&s->live, __ATOMIC_RELAXED)};
}

/* implemented: this version handles the type; the other types are reserved. */
static const struct {
    const char *name;
    bool implemented;
} types[] = {
    [AS_FRAME_HELLO] = {"HELLO", true},
    [AS_FRAME_REGISTER] = {"REGISTER", true},
    [AS_FRAME_REGISTERED] = {"REGISTERED", true},
    [AS_FRAME_UNREGISTER] = {"UNREGISTER", false},
    [AS_FRAME_OPEN] = {"OPEN", true},
    [AS_FRAME_DATA] = {"DATA", true},
    [AS_FRAME_END] = {"END", true},
    [AS_FRAME_ERROR] = {"ERROR", true},
    [AS_FRAME_STARTED] = {"STARTED", false},
    [AS_FRAME_RECALL] = {"RECALL", true},
    [AS_FRAME_RETURNED] = {"RETURNED", true},
    [AS_FRAME_BATCH] = {"BATCH", true},
    [AS_FRAME_CANCEL] = {"CANCEL", true},
    [AS_FRAME_CREDIT] = {"CREDIT", true},
    [AS_FRAME_CONTROL] = {"CONTROL", true},
    [AS_FRAME_ATTACH] = {"ATTACH", false},
    [AS_FRAME_DETACH] = {"DETACH", false},
    [AS_FRAME_PING] = {"PING", true},
    [AS_FRAME_PONG] = {"PONG", true},
    [AS_FRAME_DRAIN] = {"DRAIN", true},
    [AS_FRAME_GOODBYE] = {"GOODBYE", true},
    [AS_FRAME_OPTIONS] = {"OPTIONS", true},
    [AS_FRAME_MOVE] = {"MOVE", true},
    [AS_FRAME_TRAFFIC] = {"TRAFFIC", true},
    [AS_FRAME_TARGET] = {"TARGET", true},
    [AS_FRAME_REPORT] = {"REPORT", true},
    [AS_FRAME_SERVICES] = {"SERVICES", true},
    [AS_FRAME_POLICY] = {"POLICY", true},
    [AS_FRAME_ROUTER] = {"ROUTER", true},
    [AS_FRAME_RESERVED] = {"RESERVED", true},
};

const char *as_frame_type_name(uint8_t type)
{
    return type < AS_COUNT(types) && types[type].name ? types[type].name : "?";
}

enum as_frame_handling as_frame_handling_of(const struct as_frame *f)
{
    if (f->type < AS_COUNT(types) && types[f->type].implemented)
        return AS_FRAME_KNOWN;
    return f->flags & AS_FRAME_F_OPTIONAL ? AS_FRAME_SKIP : AS_FRAME_REFUSE;
}

int64_t as_frame_peek(const uint8_t *p, size_t n, struct as_frame *ret_f)
{
    uint32_t len, word;

    AS_ASSERT(((uintptr_t)p & 7) == 0);
    if (n < AS_FRAME_HEADER)
        return 0;
    len = get32(p);
    word = get32(p + 4);
    if (len > AS_FRAME_MAX || word >> 16 || (word >> 8 & ~FLAGS_KNOWN))
        return AS_EPROTO;
    *ret_f = (struct as_frame){.type = (uint8_t)word,
                               .flags = (uint8_t)(word >> 8),
                               .stream = get64(p + 8),
                               .p = p + AS_FRAME_HEADER,
                               .n = len};
    return (int64_t)AS_ALIGN(AS_FRAME_HEADER + (size_t)len, AS_FRAME_ALIGN);
}

int64_t as_frame_next(const uint8_t *p, size_t n, struct as_frame *ret_f)
{
    struct as_frame f;
    int64_t total = as_frame_peek(p, n, &f);

    if (total <= 0)
        return total;
    if (n < (size_t)total)
        return 0;
    *ret_f = f;
    return total;
}
