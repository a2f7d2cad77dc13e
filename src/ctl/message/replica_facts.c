#include "ctl/message/replica_facts.h"

#include <inttypes.h>

/* name, member; all are written as numbers */
#define FIELDS(X)                                                                                  \
    X("number", number)                                                                            \
    X("generation", generation)                                                                    \
    X("version", version)                                                                          \
    X("config", config)                                                                            \
    X("rank", rank)                                                                                \
    X("rank_next", rank_next)                                                                      \
    X("world", world)                                                                              \
    X("starts", starts)                                                                            \
    X("ready", ready)                                                                              \
    X("proved", proved)                                                                            \
    X("unsure", unsure)                                                                            \
    X("stale", stale)                                                                              \
    X("retiring", retiring)
/* missing in the text of older releases; 0 then */
#define LATER_FIELDS(X)                                                                            \
    X("early", early)                                                                              \
    X("leaves", leaves)

struct as_str as_replica_facts_write(const struct as_replica_slot_facts *f,
                                     char out[AS_REPLICA_FACTS_MAX])
{
    size_t n = 0;

#define X(name, member)                                                                            \
    n += (size_t)snprintf(out + n, AS_REPLICA_FACTS_MAX - n, "%s%s=%" PRIu64, n ? " " : "", name,  \
                          (uint64_t)f->member);
    FIELDS(X)
    LATER_FIELDS(X)
#undef X
    AS_ASSERT(n < AS_REPLICA_FACTS_MAX);
    return (struct as_str){out, n};
}

static struct as_str next_word(struct as_str *text)
{
    const char *space = memchr(text->p, ' ', text->n);
    struct as_str word = {text->p, space ? (size_t)(space - text->p) : text->n};
    size_t n = word.n + (space ? 1 : 0);

    *text = (struct as_str){text->p + n, text->n - n};
    return word;
}

static bool find_field(struct as_str text, const char *name, uint64_t *ret_v)
{
    size_t n = strlen(name);

    while (text.n) {
        struct as_str word = next_word(&text);

        if (word.n > n && word.p[n] == '=' && memcmp(word.p, name, n) == 0)
            return as_str_u64((struct as_str){word.p + n + 1, word.n - n - 1}, ret_v) == 0;
    }
    return false;
}

int as_replica_facts_parse(struct as_replica_slot_facts *ret_f, struct as_str text)
{
    struct as_replica_slot_facts f = {0};
    uint64_t v;

#define X(name, member)                                                                            \
    if (!find_field(text, name, &v))                                                               \
        return AS_EINVALID;                                                                        \
    f.member = (__typeof__(f.member))v;
    FIELDS(X)
#undef X
#define X(name, member)                                                                            \
    if (find_field(text, name, &v))                                                                \
        f.member = (__typeof__(f.member))v;
    LATER_FIELDS(X)
#undef X
    *ret_f = f;
    return 0;
}
