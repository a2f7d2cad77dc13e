#include "wire/json/json_text.h"

int as_json_text_open(struct as_json_text *t, struct as_str text, struct as_json_value *ret_root)
{
    as_arena_init(&t->arena, NULL, 0);
    t->copy = as_xalloc(text.n + AS_JSON_PADDING); /* zeroed: the padding is readable */
    if (text.n)
        memcpy(t->copy, text.p, text.n);
    t->json = as_json_new();
    return t->json ? as_json_open(t->json, &t->arena, t->copy, text.n, ret_root) : AS_ENOMEM;
}

void as_json_text_close(struct as_json_text *t)
{
    if (t->json)
        as_json_close(t->json);
    as_json_free(t->json);
    as_arena_fini(&t->arena);
    free(t->copy);
}
