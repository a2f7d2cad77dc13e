/* tests/unit/support/call_world.h — a real fleet with deployments that serve calls: workers and
 * drivers that the test plays, frame by frame. "a#Caller" has the token "c", "a#Callee" "d" and
 * "e".
 */
#ifndef AS_TESTS_CALL_WORLD_H
#define AS_TESTS_CALL_WORLD_H

#include "link_world.h"

#include "wire/frame/body.h"

#define CALL_CAPS                                                                                  \
    (AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL | AS_CAP_TENSOR_PARAMS | AS_CAP_CALLS)

AS_UNUSED static struct as_fleet_conf calls_conf(void)
{
    struct as_fleet_conf conf = usual();

    conf.call_credit = 4;
    conf.call_credit_bytes = 1 << 20;
    conf.max_report = 1000;
    conf.max_models = 3;
    conf.max_stats = 4;
    conf.max_stats_bytes = 100;
    conf.max_message = 4 << 20;
    return conf;
}

AS_UNUSED static void begin_calls(struct as_fleet_conf conf)
{
    begin(conf);
    as_fleet_set_driver_token(w.fleet, AS_STR("drive"));
    as_fleet_add_process(w.fleet, AS_STR("c"), AS_STR("a#Caller-0"), AS_STR("a#Caller"));
    as_fleet_add_process(w.fleet, AS_STR("d"), AS_STR("a#Callee-0"), AS_STR("a#Callee"));
    as_fleet_add_process(w.fleet, AS_STR("e"), AS_STR("a#Callee-1"), AS_STR("a#Callee"));
    as_fleet_set_flag(&w.fleet->accepting, true);
}

AS_UNUSED static struct hand *greet_as(int i, const char *token, uint64_t caps)
{
    struct hand *h = connect_hand(i);
    struct as_frame_hello hello = {.lo = 1,
                                   .hi = 1,
                                   .capabilities = caps,
                                   .max_message = 8 << 20,
                                   .token = as_str_of(token),
                                   .replica = AS_STR("guest"),
                                   .peer = AS_STR("a test")};

    as_frame_put_hello(&h->out, &hello);
    if (caps & AS_CAP_PAGE)
        send_page(h);
    return h;
}

AS_UNUSED static void say_register(struct hand *h, const char *name)
{
    struct as_frame_register r = {.name = as_str_of(name),
                                  .version = AS_STR("1"),
                                  .platform = AS_STR("test"),
                                  .max_ongoing = 2,
                                  .budget = 2,
                                  .opaque = true};

    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
}

/* A replica with two slots that serves calls, and may make some. */
AS_UNUSED static struct hand *serve(int i, const char *token, const char *name)
{
    struct hand *h = greet_as(i, token, CALL_CAPS);
    struct as_frame_registered answer;
    uint32_t ready = w.ready;

    say_register(h, name);
    expect(h, AS_FRAME_REGISTERED);
    assert_int_equal(as_frame_get_registered(&h->f, &answer), 0);
    assert_int_equal(answer.code, 0);
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 2, .prefetch = 8});
    UNTIL(w.ready > ready);
    return h;
}

AS_UNUSED static struct hand *drive(int i)
{
    struct hand *h = greet_as(i, "drive", AS_CAP_CALLS | AS_CAP_DRIVER);

    expect(h, AS_FRAME_HELLO);
    return h;
}

AS_UNUSED static void say_target(struct hand *h, uint32_t number, const char *deployment)
{
    struct as_frame_target t = {number, AS_STR("a"), as_str_of(deployment)};

    assert_int_equal(as_frame_put_target(&h->out, &t), 0);
}

/* A body of bytes. */
AS_UNUSED static struct as_body bytes_body(const void *p, size_t n)
{
    return (struct as_body){.codec = AS_BODY_BYTES, .data = {p, n}};
}

AS_UNUSED static void say_open_of(struct hand *h, uint64_t stream, const struct as_frame_call *c,
                                  const struct as_body *body)
{
    assert_int_equal(as_frame_put_call(&h->out, AS_FRAME_OPEN, stream, c, body, NULL), 0);
}

/* A call of target 0 with a text, in the context of `parent`. */
AS_UNUSED static void say_open(struct hand *h, uint64_t stream, uint64_t parent, const char *text)
{
    struct as_body body = bytes_body(text, strlen(text));

    body.method = AS_STR("f");
    say_open_of(h, stream, &(struct as_frame_call){.parent = parent, .priority = 1}, &body);
}

/* The callee answers with a text; more: another message follows. */
AS_UNUSED static void say_answer(struct hand *h, uint64_t stream, const char *text, bool more)
{
    struct as_body body = bytes_body(text, strlen(text));

    assert_int_equal(as_frame_put_call(&h->out, AS_FRAME_DATA, stream,
                                       &(struct as_frame_call){.more = more}, &body, NULL),
                     0);
}

/* The last frame of h is a message with this text. */
AS_UNUSED static void assert_text(struct hand *h, bool answer, const char *text)
{
    struct as_frame_call c;
    struct as_body body;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_call(&h->f, &a, &c, &why), 0);
    assert_non_null(c.body);
    assert_int_equal(as_body_get(c.body, c.body_len, answer, &a, &body, &why), 0);
    assert_true(as_str_eq(body.data, as_str_of(text)));
    as_arena_fini(&a);
}

/* The next ERROR of h is of this stream and status. */
AS_UNUSED static struct as_frame_error expect_error(struct hand *h, uint64_t stream, uint32_t code)
{
    struct as_frame_error e;

    expect(h, AS_FRAME_ERROR);
    assert_int_equal(h->f.stream, stream);
    assert_int_equal(as_frame_get_error(&h->f, &e), 0);
    if (e.code != code)
        fail_msg("code %u: %.*s", e.code, AS_STR_FMT(e.message));
    return e;
}

AS_UNUSED static struct as_link *link_of(const char *token)
{
    return AS_CONTAINER(as_fleet_find_process(w.fleet, as_str_of(token))->up, struct as_link, up);
}

/* The link of h has ended: the dispatcher has closed it. */
AS_UNUSED static bool is_closed(struct hand *h)
{
    char c[4096];
    ssize_t n;

    do {
        n = recv(h->fd, c, sizeof(c), MSG_DONTWAIT);
    } while (n > 0);
    return n == 0;
}

#endif
