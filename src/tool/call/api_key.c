#include "tool/call/api_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* from: what the text was read from, for errors. */
static int check(struct as_str text, const char *from, struct as_buf *why)
{
    const char *what = NULL;

    if (!text.n)
        what = "is empty";
    else if (memchr(text.p, '\n', text.n))
        what = "has more than one line: an API key is one line";
    for (size_t i = 0; i < text.n && !what; i++) {
        if (text.p[i] <= ' ' || text.p[i] > '~')
            what = "has a byte that no API key has: it is one line of visible ASCII characters";
    }
    if (!what && text.n <= AS_API_KEY_MAX)
        return 0;
    as_buf_str(why, from);
    if (what)
        as_buf_printf(why, " %s", what);
    else
        as_buf_printf(why, " has more than %u bytes, which is no API key", AS_API_KEY_MAX);
    return AS_EINVALID;
}

static int store(struct as_str text, const char *from, struct as_arena *a, struct as_str *ret_key,
                 struct as_buf *why)
{
    int rc = check(text, from, why);

    if (!rc) {
        ret_key->p = as_arena_dup(a, text);
        AS_ASSERT(ret_key->p);
        ret_key->n = text.n;
    }
    return rc;
}

static int read_file(const char *path, struct as_arena *a, struct as_str *ret_key,
                     struct as_buf *why)
{
    char text[AS_API_KEY_MAX + 3]; /* and "\r\n", and one byte to see that it is too long */
    struct as_str key = {text, 0};
    struct as_buf from = {0};
    FILE *f = fopen(path, "re");
    int rc, e;

    if (f)
        key.n = fread(text, 1, sizeof(text), f);
    e = !f || ferror(f) ? errno : 0;
    if (f)
        fclose(f);
    if (key.n && text[key.n - 1] == '\n')
        key.n--;
    if (key.n && text[key.n - 1] == '\r')
        key.n--;
    as_buf_printf(&from, "--%s: %s", as_option_key(AS_OPT_API_KEY_FILE), path);
    if (e) {
        as_buf_printf(why, "%s: %s", as_buf_cstr(&from), strerror(e));
        rc = AS_EINVALID;
    } else {
        rc = store(key, as_buf_cstr(&from), a, ret_key, why);
    }
    as_buf_fini(&from);
    explicit_bzero(text, sizeof(text));
    return rc;
}

int as_api_key_read(const struct as_option_set *o, struct as_arena *a, struct as_str *ret_key,
                    struct as_buf *why)
{
    const char *path = as_option_str(o, AS_OPT_API_KEY_FILE);
    const char *text = getenv(AS_API_KEY_VARIABLE);

    *ret_key = (struct as_str){0};
    if (path[0])
        return read_file(path, a, ret_key, why);
    return text && text[0]
               ? store(as_str_of(text), "the environment's " AS_API_KEY_VARIABLE, a, ret_key, why)
               : 0;
}
