/* tests/unit/support/oip_json_case.h — parses REST bodies with wire/oip/oip_json. The body is in a
 * block of exactly its size and the padding. */
#ifndef AS_TESTS_OIP_JSON_CASE_H
#define AS_TESTS_OIP_JSON_CASE_H

#include "unit.h"
#include "wire/oip/oip_json.h"

static struct {
    struct as_json *j;
    struct as_arena arena;
    uint8_t *body;
    struct as_oip_infer r;
    char why[256];
} got;

AS_UNUSED static void free_result(void)
{
    as_blob_unref(got.r.blob);
    as_arena_fini(&got.arena);
    as_arena_init(&got.arena, NULL, 0);
    memset(&got.r, 0, sizeof(got.r));
    strcpy(got.why, "");
}

AS_UNUSED static int up(void **state AS_UNUSED)
{
    got.j = as_json_new();
    return 0;
}

AS_UNUSED static int down(void **state AS_UNUSED)
{
    free_result();
    as_json_free(got.j);
    free(got.body);
    memset(&got, 0, sizeof(got));
    return 0;
}

/* A body in a block of exactly its size and the padding. */
AS_UNUSED static const uint8_t *set_body(const char *json, const void *binary, size_t n)
{
    size_t len = strlen(json);

    free_result();
    free(got.body);
    got.body = malloc(len + n + AS_JSON_PADDING);
    memcpy(got.body, json, len);
    if (n)
        memcpy(got.body + len, binary, n);
    memset(got.body + len + n, 0xff, AS_JSON_PADDING);
    return got.body;
}

AS_UNUSED static int parse_with(const char *json, const void *binary, size_t n)
{
    const uint8_t *p = set_body(json, binary, n);

    return as_oip_json_parse_infer(got.j, p, strlen(json), strlen(json) + n, &got.arena, &got.r,
                                   got.why, sizeof(got.why));
}

AS_UNUSED static int parse(const char *json)
{
    return parse_with(json, NULL, 0);
}

#define REFUSED(json, text)                                                                        \
    do {                                                                                           \
        assert_int_equal(parse(json), AS_EINVALID);                                                \
        assert_string_equal(got.why, text);                                                        \
    } while (0)

/* One input 'a' with these members. */
#define INPUT(members) "{\"inputs\":[{\"name\":\"a\"," members "}]}"

#endif
