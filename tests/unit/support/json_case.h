/* tests/unit/support/json_case.h — a JSON reader and its text. The text is in a block of exactly
 * its size and the padding, so that a sanitizer detects reads beyond it. */
#ifndef AS_TESTS_JSON_CASE_H
#define AS_TESTS_JSON_CASE_H

#include "unit.h"
#include "wire/json/json.h"

static struct {
    struct as_json *j;
    struct as_arena arena;
    uint8_t *text; /* slices point into it; valid until the next text */
    struct as_json_value root;
} got;

AS_UNUSED static int up(void **state AS_UNUSED)
{
    got.j = as_json_new();
    as_arena_init(&got.arena, NULL, 0);
    return 0;
}

AS_UNUSED static int down(void **state AS_UNUSED)
{
    as_json_free(got.j);
    as_arena_fini(&got.arena);
    free(got.text);
    memset(&got, 0, sizeof(got));
    return 0;
}

/* `fill`: the byte in the padding. */
AS_UNUSED static struct as_str keep_text(const char *z, char fill)
{
    size_t n = strlen(z);

    free(got.text);
    got.text = malloc(n + AS_JSON_PADDING);
    memcpy(got.text, z, n);
    memset(got.text + n, fill, AS_JSON_PADDING);
    return (struct as_str){(char *)got.text, n};
}

AS_UNUSED static void assert_str(struct as_str s, const char *want)
{
    assert_int_equal(s.n, strlen(want));
    assert_memory_equal(s.p, want, s.n);
}

#endif
