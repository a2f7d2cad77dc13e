/* Specification of wire/ws/ws when memory is refused: nothing is left behind, and it says
 * AS_ENOMEM. What it takes goes through the test (the linker's --wrap), which lets it fail. */
#include "ws_case.h"

#include "base/err.h"
#include "unit.h"

#include <wslay/wslay.h>

static const struct as_ws_conf conf = {.max_message = 1000, .max_fragments = 4};
static int fail_at; /* the next call that takes memory is number 1; 0: none fails */
static int live;    /* blocks and decoders that were taken and not given back */

void *__real_as_slab_get(size_t n);
void __real_as_slab_put(void *p);
int __real_wslay_frame_context_init(wslay_frame_context_ptr *ret,
                                    const struct wslay_frame_callbacks *callbacks, void *user);
void __real_wslay_frame_context_free(wslay_frame_context_ptr p);
void *__wrap_as_slab_get(size_t n);
void __wrap_as_slab_put(void *p);
int __wrap_wslay_frame_context_init(wslay_frame_context_ptr *ret,
                                    const struct wslay_frame_callbacks *callbacks, void *user);
void __wrap_wslay_frame_context_free(wslay_frame_context_ptr p);

static bool fails(void)
{
    return fail_at && !--fail_at;
}

void *__wrap_as_slab_get(size_t n)
{
    void *p = fails() ? NULL : __real_as_slab_get(n);

    live += p != NULL;
    return p;
}

void __wrap_as_slab_put(void *p)
{
    live -= p != NULL;
    __real_as_slab_put(p);
}

int __wrap_wslay_frame_context_init(wslay_frame_context_ptr *ret,
                                    const struct wslay_frame_callbacks *callbacks, void *user)
{
    if (fails())
        return -1; /* as when malloc fails */
    live++;
    return __real_wslay_frame_context_init(ret, callbacks, user);
}

void __wrap_wslay_frame_context_free(wslay_frame_context_ptr p)
{
    live -= p != NULL;
    __real_wslay_frame_context_free(p);
}

static void a_websocket_is_refused(void **state AS_UNUSED)
{
    struct ws_case c = {0};

    for (int at = 1; at <= 2; at++) {
        fail_at = at;
        assert_int_equal(ws_open(&c, &conf, NULL), AS_ENOMEM);
        assert_int_equal(fail_at, 0);
        assert_int_equal(live, 0);
    }
    assert_int_equal(ws_open(&c, &conf, NULL), 0);
    assert_int_equal(live, 2);
    ws_close(&c);
    assert_int_equal(live, 0);
}

static void a_message_is_refused(void **state AS_UNUSED)
{
    struct ws_case c = {0};
    struct as_buf in = {0};

    assert_int_equal(ws_open(&c, &conf, NULL), 0);
    ws_frame(&in, 0x82, "abc", 3);
    fail_at = 1;
    assert_int_equal(as_ws_recv(c.w, in.p, in.n), in.n);
    assert_string_equal(as_buf_cstr(&c.seen), "F(1013 there is no room for the message)");
    assert_int_equal(fail_at, 0);
    ws_close(&c);
    assert_int_equal(live, 0);
    as_buf_fini(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_websocket_is_refused),
        cmocka_unit_test(a_message_is_refused),
    };

    return cmocka_run_group_tests_name("ws_memory", tests, NULL, NULL);
}
