#include "ctl/message/spawn.h"

#include "wire/protobuf/pb.h"
#include "wire/protobuf/pb_pack.h"

/* A text that is appended item by item is a message, too. */
void as_spawn_put(struct as_buf *text, enum as_spawn_item item, const char *fmt, ...)
{
    struct as_buf value = {0};
    uint8_t *p;
    va_list ap;

    va_start(ap, fmt);
    as_buf_vprintf(&value, fmt, ap);
    va_end(ap);
    p = as_buf_reserve(text, as_pb_len_len(value.n));
    text->n += (size_t)(as_pb_put_str(p, item, as_buf_slice(&value)) - p);
    as_buf_fini(&value);
}

void as_spawn_put_number(struct as_buf *text, enum as_spawn_item item, uint64_t v)
{
    uint8_t *p = as_buf_reserve(text, 1 + as_pb_varint_len(v));

    *p = (uint8_t)AS_PB_TAG(item, AS_PB_VARINT);
    text->n += (size_t)(as_pb_put_varint(p + 1, v) - p);
}

static As__Spawn *unpack(struct as_str text)
{
    return as__spawn__unpack(NULL, text.n, (const uint8_t *)text.p);
}

/* Appends those that are "NAME=value". Returns how many there are then. */
static size_t add_env(const char **env, size_t n, char *const *from, size_t n_from)
{
    for (size_t i = 0; i < n_from; i++) {
        env[n] = from[i];
        n += strchr(from[i], '=') != NULL;
    }
    env[n] = NULL;
    return n;
}

int as_spawn_parse(struct as_spawn *ret_s, struct as_str text)
{
    As__Spawn *m = unpack(text);
    struct as_spawn s = {.message = m};
    size_t n_env = m ? m->n_own_env + m->n_env : 0, n = 0;

    if (!m)
        return AS_EPROTO;
    s.argv = as_xalloc((m->n_arg + 1) * sizeof(*s.argv));
    for (; n < m->n_arg; n++)
        s.argv[n] = m->arg[n];
    s.argv[n] = NULL;
    s.env = as_xalloc((n_env + 1) * sizeof(*s.env));
    n = add_env(s.env, 0, m->own_env, m->n_own_env);
    n = add_env(s.env, n, m->env, m->n_env);
    s.batch = m->batch;
    s.dir = m->dir[0] ? m->dir : NULL;
    s.cpus = m->cpus[0] ? m->cpus : NULL;
    s.memory = m->memory;
    if (m->n_arg && n == n_env) {
        *ret_s = s;
        return 0;
    }
    as_spawn_fini(&s);
    return AS_EPROTO;
}

void as_spawn_fini(struct as_spawn *s)
{
    free(s->argv);
    free(s->env);
    if (s->message)
        as__spawn__free_unpacked(s->message, NULL);
    *s = (struct as_spawn){0};
}

void as_spawn_split(struct as_str text, struct as_buf *shared, struct as_buf *own)
{
    As__Spawn *m = unpack(text);
    size_t n = m ? m->n_own_env : 0;

    if (!m)
        return;
    for (size_t i = 0; i < n; i++)
        as_buf_add(own, m->own_env[i], strlen(m->own_env[i]) + 1);
    m->n_own_env = 0;
    if (as_pb_pack(&m->base, shared) < 0)
        as_fatal_memory(as__spawn__get_packed_size(m));
    m->n_own_env = n;
    as__spawn__free_unpacked(m, NULL);
}

uint32_t as_spawn_spares(struct as_str text)
{
    As__Spawn *m = unpack(text);
    uint32_t n = m ? m->spares : 0;

    if (m)
        as__spawn__free_unpacked(m, NULL);
    return n;
}
