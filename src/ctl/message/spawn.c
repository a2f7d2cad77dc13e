#include "ctl/message/spawn.h"

enum {
    ARG = 'a',
    ENV = 'e',
    BATCH = 'b',
    DIR = 'd',
    CPUS = 'c',
    MEMORY = 'm',
    OWN = 'o',
    SPARES = 'w'
};

static void put_item(struct as_buf *text, char what, const char *s)
{
    as_buf_add(text, &what, 1);
    as_buf_add(text, s, strlen(s) + 1);
}

void as_spawn_put_arg(struct as_buf *text, const char *arg)
{
    put_item(text, ARG, arg);
}

void as_spawn_put_env(struct as_buf *text, const char *env)
{
    put_item(text, ENV, env);
}

void as_spawn_put_own_env(struct as_buf *text, const char *env)
{
    put_item(text, OWN, env);
}

static void put_number(struct as_buf *text, char what, uint64_t v)
{
    char number[24];

    snprintf(number, sizeof(number), "%llu", (unsigned long long)v);
    put_item(text, what, number);
}

void as_spawn_put_spares(struct as_buf *text, uint32_t n)
{
    put_number(text, SPARES, n);
}

void as_spawn_put_batch(struct as_buf *text)
{
    put_item(text, BATCH, "");
}

void as_spawn_put_dir(struct as_buf *text, const char *dir)
{
    put_item(text, DIR, dir);
}

void as_spawn_put_cpus(struct as_buf *text, const char *list)
{
    put_item(text, CPUS, list);
}

void as_spawn_put_memory(struct as_buf *text, uint64_t bytes)
{
    put_number(text, MEMORY, bytes);
}

/* Both arrays are allocated for all strings of the text, which is more than either needs. */
int as_spawn_parse(struct as_spawn *ret_s, struct as_str text)
{
    const char *p = text.p, *end = text.p + text.n;
    struct as_spawn s = {0};
    size_t strings = 1, n_argv = 0, n_env = 0;
    int rc = 0;

    if (text.n == 0 || end[-1] != 0)
        return AS_EPROTO;
    for (size_t i = 0; i < text.n; i++)
        strings += text.p[i] == 0;
    s.argv = as_xalloc(strings * sizeof(*s.argv));
    s.env = as_xalloc(strings * sizeof(*s.env));
    for (; rc == 0 && p < end; p += strlen(p) + 1) {
        if (*p == ARG)
            s.argv[n_argv++] = p + 1;
        else if ((*p == ENV || *p == OWN) && strchr(p, '='))
            s.env[n_env++] = p + 1;
        else if (*p == BATCH)
            s.batch = true;
        else if (*p == DIR)
            s.dir = p + 1;
        else if (*p == CPUS)
            s.cpus = p + 1;
        else if (*p == SPARES)
            ; /* as_spawn_spares */
        else if (*p == MEMORY)
            rc = as_str_u64(as_str_of(p + 1), &s.memory) < 0 ? AS_EPROTO : 0;
        else
            rc = AS_EPROTO; /* an item of another version */
    }
    if (n_argv == 0)
        rc = AS_EPROTO;
    if (rc < 0)
        as_spawn_fini(&s);
    else
        *ret_s = s;
    return rc;
}

void as_spawn_fini(struct as_spawn *s)
{
    free(s->argv);
    free(s->env);
    *s = (struct as_spawn){0};
}

/* The length of an item with its NUL; 0: there is no NUL. */
static size_t item_length(const char *p, const char *end)
{
    const char *nul = memchr(p, 0, (size_t)(end - p));

    return nul ? (size_t)(nul - p) + 1 : 0;
}

void as_spawn_split(struct as_str text, struct as_buf *shared, struct as_buf *own)
{
    size_t n;

    for (const char *p = text.p, *end = text.p + text.n; p < end; p += n) {
        n = item_length(p, end);
        if (!n)
            return;
        if (*p == OWN)
            as_buf_add(own, p + 1, n - 1);
        else
            as_buf_add(shared, p, n);
    }
}

uint32_t as_spawn_spares(struct as_str text)
{
    uint64_t v = 0;
    size_t n;

    for (const char *p = text.p, *end = text.p + text.n; p < end; p += n) {
        n = item_length(p, end);
        if (!n || (*p == SPARES && as_str_u64(as_str_of(p + 1), &v) < 0))
            return 0;
    }
    return v < UINT32_MAX ? (uint32_t)v : 0;
}
