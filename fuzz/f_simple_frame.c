/* fuzz/f_simple_frame.c — any bytes as the answer of a simple worker.
 *
 * The first byte cuts the rest into reads of random sizes. The result (a message or an error) does
 * not depend on the cuts; all bytes of an accepted message can be read.
 */
#include "wire/oip/simple_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX 4096u

static volatile unsigned sink; /* or the reads below would be optimised away */

static void touch(const void *p, size_t n)
{
    const uint8_t *b = p;
    unsigned sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += b[i];
    sink = sum;
}

static void check(const struct as_simple_answer *a)
{
    AS_ASSERT(a->status <= 16);
    AS_ASSERT(!a->status || !a->r.n_outputs);
    touch(a->message.p, a->message.n);
    for (uint32_t i = 0; i < a->r.n_outputs; i++) {
        AS_ASSERT(a->r.outputs[i].data || !a->r.outputs[i].nbytes);
        touch(a->r.outputs[i].data, a->r.outputs[i].nbytes);
        touch(a->r.outputs[i].name.p, a->r.outputs[i].name.n);
    }
    for (uint32_t i = 0; i < a->r.n_params; i++)
        touch(a->r.params[i].name.p, a->r.params[i].name.n);
}

static int read_all(struct as_str message)
{
    struct as_simple_answer a;
    struct as_arena arena;
    char why[256];
    int err;

    as_arena_init(&arena, NULL, 0);
    err = as_simple_frame_parse(message, AS_STR("7"), &arena, &a, why, sizeof(why));
    if (!err)
        check(&a);
    as_arena_fini(&arena);
    return err;
}

/* Returns the result, and the message's place in the input: its length and what follows it. */
static int cut(const uint8_t *p, size_t n, size_t step, bool straight, size_t *ret_n,
               size_t *ret_rest)
{
    struct as_simple_frame_rx rx = {0};
    struct as_str message = {0};
    size_t rest = 0, room;
    int r = 0;

    while (!r && n) {
        size_t k = AS_MIN(n, step);
        uint8_t *to = straight ? as_simple_frame_buffer(&rx, &room) : NULL;

        if (to) {
            k = AS_MIN(k, room);
            memcpy(to, p, k);
            r = as_simple_frame_received(&rx, k, &message);
        } else {
            r = as_simple_frame_receive(&rx, p, k, MAX, &message, &rest);
        }
        p += k;
        n -= k;
    }
    if (r == 1) {
        *ret_n = message.n;
        *ret_rest = rest + n;
        r = read_all(message) ? 2 : 1;
    }
    as_simple_frame_reset(&rx);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n[3] = {0}, rest[3] = {0};
    int r[3];

    if (!size)
        return 0;
    r[0] = cut(data + 1, size - 1, size, false, &n[0], &rest[0]);
    r[1] = cut(data + 1, size - 1, data[0] % 16 + 1u, false, &n[1], &rest[1]);
    r[2] = cut(data + 1, size - 1, data[0] + 1u, true, &n[2], &rest[2]);
    for (int i = 1; i < 3; i++)
        AS_ASSERT(r[i] == r[0] && n[i] == n[0] && rest[i] == rest[0]);
    return 0;
}
