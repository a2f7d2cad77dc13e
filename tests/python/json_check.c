/* Answers questions about JSON that test_json.py asks on stdin: the oracle sits on the other end.
 *
 * A question: u32 kind, u32 json_len, u32 n, n bytes. Kind 'w': is it JSON? 'i': an inference
 * request, whose inputs come back as the outputs of an answer, as JSON; 'b': the same, asked for in
 * binary. An answer: u32 code (0: fine, 1: refused), u32 n, n bytes (a text or the reason), u32 n,
 * n bytes of binary data. All numbers little-endian. */
#include "wire/oip/oip_json.h"

#include <stdio.h>

static void put(const void *p, size_t n)
{
    uint32_t len = (uint32_t)n;

    fwrite(&len, 4, 1, stdout);
    if (n)
        fwrite(p, 1, n, stdout);
}

static void answer(uint32_t code, const void *p, size_t n)
{
    fwrite(&code, 4, 1, stdout);
    put(p, n);
}

static void walk(struct as_json *j, const uint8_t *p, size_t n)
{
    struct as_json_value root;
    struct as_arena a;
    int err;

    as_arena_init(&a, NULL, 0);
    err = as_json_open(j, &a, p, n, &root);
    if (!err)
        err = as_json_skip(j, &root);
    if (!err)
        err = as_json_expect_end(j);
    as_json_close(j);
    answer(err != 0, err ? as_json_why(j) : "", err ? strlen(as_json_why(j)) : 0);
    put(NULL, 0);
    as_arena_fini(&a);
}

static void infer(struct as_json *j, const uint8_t *p, size_t json_len, size_t n, bool binary)
{
    struct as_oip_infer m, all = {.binary_output = binary};
    struct as_oip_response r;
    struct as_buf data = {0};
    struct as_arena a;
    char why[256];
    uint64_t max;
    uint8_t *out;
    int err;

    as_arena_init(&a, NULL, 0);
    err = as_oip_json_parse_infer(j, p, json_len, n, &a, &m, why, sizeof(why));
    if (!err) {
        r = (struct as_oip_response){.id = m.id,
                                     .outputs = m.inputs,
                                     .n_outputs = m.n_inputs,
                                     .params = m.params,
                                     .n_params = m.n_params};
        err = as_oip_json_response_max(&r, &all, &max, why, sizeof(why));
    }
    if (err) {
        answer(1, why, strlen(why));
    } else {
        out = malloc(max);
        answer(0, out, as_oip_json_put_response(out, &r, &all));
        free(out);
        for (uint32_t i = 0; binary && i < m.n_inputs; i++)
            as_buf_add(&data, m.inputs[i].data, m.inputs[i].nbytes);
        as_blob_unref(m.blob);
    }
    put(data.p, data.n);
    as_buf_fini(&data);
    as_arena_fini(&a);
}

int main(void)
{
    struct as_json *j = as_json_new();
    uint32_t head[3];

    while (fread(head, 4, 3, stdin) == 3) {
        uint8_t *p = calloc(1, head[2] + AS_JSON_PADDING);

        if (fread(p, 1, head[2], stdin) != head[2])
            return 1;
        if (head[0] == 'w')
            walk(j, p, head[2]);
        else
            infer(j, p, head[1], head[2], head[0] == 'b');
        fflush(stdout);
        free(p);
    }
    as_json_free(j);
    return 0;
}
