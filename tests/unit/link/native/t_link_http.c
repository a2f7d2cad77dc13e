/* Requests of HTTP on a link: what a worker may send, and uploads that are asked back. */
#include "call_world.h"

#define UPLOAD "the rest of the body"

struct upload {
    struct as_frame_http_open open;
    struct as_input input;
    uint32_t taken; /* inputs that were released */
    uint64_t bytes; /* of the answer */
};

static struct upload uploads[CALLS];
static struct hand *d_hand, *e_hand;

static struct hand *serve_http(int i, const char *token)
{
    struct as_frame_register r = {.name = AS_STR("Callee"),
                                  .version = AS_STR("1"),
                                  .platform = AS_STR("test"),
                                  .max_ongoing = 2,
                                  .budget = 2,
                                  .opaque = true,
                                  .http = true};
    struct hand *h = greet_as(i, token, CALL_CAPS);
    uint32_t ready = w.ready;

    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    expect(h, AS_FRAME_REGISTERED);
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 2, .prefetch = 8});
    UNTIL(w.ready > ready);
    return h;
}

static void on_http_part(struct as_call *c, struct as_part *p)
{
    struct request *q = AS_CONTAINER(c, struct request, call);

    q->parts++;
    uploads[q - w.q].bytes += p->payload.body.n;
}

static struct request *submit_http(uint32_t flags)
{
    struct request *q = &w.q[w.n];
    struct upload *u = &uploads[w.n++];

    *u = (struct upload){.open = {.version = 11,
                                  .flags = flags,
                                  .method = AS_STR("POST"),
                                  .path = AS_STR("/x"),
                                  .scheme = AS_STR("http")}};
    as_arena_init(&q->arena, NULL, 0);
    as_request_init(&q->call.core);
    q->call.caller = AS_CALL_NO_CALLER;
    q->call.route = as_routes_find(w.client.routes, AS_STR("/x"));
    assert_non_null(q->call.route);
    q->call.payload = (struct as_payload){.kind = AS_FRAME_HTTP, .http = &u->open};
    q->call.arena = &q->arena;
    q->call.on_answer = on_answer;
    q->call.on_release = on_release;
    q->stream = (struct as_call_stream){.on_part = on_http_part,
                                        .takes_inputs = !(flags & AS_HTTP_F_WHOLE)};
    q->call.stream = &q->stream;
    as_fleet_client_submit(&w.client, &q->call);
    return q;
}

static void begin_http(void)
{
    begin_calls(calls_conf());
    assert_true(as_fleet_set_route(w.fleet, AS_STR("a#Callee"), AS_STR("/x")));
    d_hand = serve_http(0, "d");
}

static void say_head(struct hand *h, uint64_t stream, uint16_t status, uint64_t service, bool last)
{
    struct as_frame_http_head head = {.status = status, .service = service, .end = last};

    assert_int_equal(as_frame_put_http_head(&h->out, stream, &head, NULL), 0);
}

static void say_message(struct hand *h, uint64_t stream, const char *text)
{
    struct as_frame_ws_message m = {
        .opcode = AS_WS_TEXT, .body = (const uint8_t *)text, .body_len = strlen(text)};

    assert_int_equal(as_frame_put_ws_message(&h->out, stream, &m, NULL), 0);
}

static void say_bytes(struct hand *h, uint64_t stream, size_t n, bool last)
{
    static const uint8_t bytes[AS_HTTP_WINDOW + 1];

    as_frame_put_http_data(&h->out, stream, bytes, n, last, NULL);
}

/* --- rules --- */

static void assert_broken(struct request *q, const char *why)
{
    UNTIL(w.killed);
    assert_string_equal(w.why, why);
    UNTIL(q->released);
    end();
}

static uint64_t begin_rule(uint32_t flags, struct request **ret_q)
{
    begin_http();
    *ret_q = submit_http(flags);
    expect(d_hand, AS_FRAME_OPEN);
    return d_hand->f.stream;
}

static void answers_begin_with_one_head(void **state AS_UNUSED)
{
    struct request *q;
    uint64_t stream = begin_rule(AS_HTTP_F_WHOLE, &q);

    say_bytes(d_hand, stream, 1, false);
    assert_broken(q, "DATA before the head of the answer");
    stream = begin_rule(AS_HTTP_F_WHOLE, &q);
    say_head(d_hand, stream, 200, 0, false);
    say_head(d_hand, stream, 200, 0, false);
    assert_broken(q, "two heads of one answer");
}

static void bytes_keep_to_their_window(void **state AS_UNUSED)
{
    struct request *q;
    uint64_t stream = begin_rule(AS_HTTP_F_WHOLE, &q);

    say_head(d_hand, stream, 200, 0, false);
    say_bytes(d_hand, stream, AS_HTTP_WINDOW, false);
    UNTIL(uploads[0].bytes == AS_HTTP_WINDOW);
    assert_int_equal(w.killed, 0);
    say_bytes(d_hand, stream, 1, false);
    assert_broken(q, "DATA beyond its stream's window");
}

static void nothing_follows_the_end(void **state AS_UNUSED)
{
    struct request *q;
    uint64_t stream;

    for (int how = 0; how < 4; how++) {
        stream = begin_rule(AS_HTTP_F_WHOLE, &q);
        say_head(d_hand, stream, 200, 0, how & 1);
        if (!(how & 1))
            say_bytes(d_hand, stream, 1, true);
        if (how & 2)
            say_bytes(d_hand, stream, 1, true);
        else
            as_frame_put_end(&d_hand->out, stream, 0);
        assert_broken(q, how & 2 ? "DATA on a stream that is not open"
                                 : "frame on a stream that is not open");
    }
}

static void messages_are_of_websockets(void **state AS_UNUSED)
{
    struct request *q;
    uint64_t stream = begin_rule(AS_HTTP_F_WHOLE, &q);

    say_head(d_hand, stream, 200, 0, false);
    say_message(d_hand, stream, "m");
    assert_broken(q, "a message of a websocket in another answer");
    for (int refused = 0; refused < 2; refused++) { /* before the head; behind one that refuses */
        stream = begin_rule(AS_HTTP_F_WEBSOCKET, &q);
        if (refused)
            say_head(d_hand, stream, 403, 0, false);
        say_message(d_hand, stream, "m");
        assert_broken(q, "a message of a websocket that was not accepted");
    }
}

static void bytes_of_a_websocket_are_of_messages(void **state AS_UNUSED)
{
    struct request *q;
    uint64_t stream = begin_rule(AS_HTTP_F_WEBSOCKET, &q);

    say_head(d_hand, stream, 101, 0, false);
    say_message(d_hand, stream, "m");
    say_bytes(d_hand, stream, 1, false);
    assert_broken(q, "bytes of a websocket outside of a message");
}

/* --- uploads that are asked back --- */

static void on_input_release(struct as_input *in)
{
    ((struct upload *)in->owner)->taken++;
}

static void send_upload(struct request *q)
{
    struct upload *u = &uploads[q - w.q];

    u->input =
        (struct as_input){.payload = {.kind = AS_FRAME_HTTP, .body = {UPLOAD, sizeof(UPLOAD) - 1}},
                          .on_release = on_input_release,
                          .owner = u};
    as_fleet_client_input(&w.client, &q->call, &u->input);
}

static void assert_upload(struct hand *h, uint64_t stream)
{
    do {
        expect(h, AS_FRAME_DATA);
    } while (!h->f.n);
    assert_int_equal(h->f.stream, stream);
    assert_int_equal(h->f.n, sizeof(UPLOAD) - 1);
    assert_memory_equal(h->f.p, UPLOAD, sizeof(UPLOAD) - 1);
}

/* An upload waits behind two requests that execute at the only replica. */
static struct request *wait_behind(void)
{
    struct request *q;

    begin_http();
    (void)submit_http(AS_HTTP_F_WHOLE);
    expect(d_hand, AS_FRAME_OPEN);
    say_head(d_hand, d_hand->f.stream, 200, AS_US, true); /* so fast that it prefetches */
    UNTIL(w.q[0].released);
    (void)submit_http(AS_HTTP_F_WHOLE);
    (void)submit_http(AS_HTTP_F_WHOLE);
    q = submit_http(0);
    start(d_hand, 3);
    expect(d_hand, AS_FRAME_OPEN);
    return q;
}

static void an_upload_that_goes_on_is_not_asked_back(void **state AS_UNUSED)
{
    struct request *q = wait_behind(), *other = submit_http(0);
    uint64_t ids[2];
    uint32_t n;

    expect(d_hand, AS_FRAME_OPEN);
    send_upload(q);
    assert_upload(d_hand, d_hand->streams[3]);
    e_hand = serve_http(1, "e");
    expect(d_hand, AS_FRAME_RECALL);
    assert_int_equal(as_frame_get_ids(&d_hand->f, ids, AS_COUNT(ids), &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], d_hand->streams[4]);
    as_frame_put_ids(&d_hand->out, AS_FRAME_RETURNED, ids, 1);
    expect(e_hand, AS_FRAME_OPEN);
    say_head(d_hand, d_hand->streams[3], 200, 0, true);
    UNTIL(q->released);
    assert_int_equal(w.killed + other->released, 0);
    end();
}

static void an_upload_goes_on_when_it_is_known_where(void **state AS_UNUSED)
{
    for (int kept = 0; kept < 2; kept++) {
        struct request *q = wait_behind();
        struct upload *u = &uploads[q - w.q];
        struct hand *h = d_hand;
        uint64_t stream = h->streams[3];

        e_hand = serve_http(1, "e");
        expect(d_hand, AS_FRAME_RECALL);
        send_upload(q);
        assert_int_equal(u->taken, 0);
        as_frame_put_ids(&d_hand->out, AS_FRAME_RETURNED, &stream, kept ? 0 : 1);
        if (!kept) {
            h = e_hand;
            expect(h, AS_FRAME_OPEN);
            stream = h->f.stream;
        }
        assert_upload(h, stream);
        assert_int_equal(u->taken, 1);
        say_head(h, stream, 200, 0, true);
        UNTIL(q->released);
        assert_int_equal(w.killed, 0);
        end();
    }
}

/* Its client goes while its input waits. */
static void an_upload_is_cancelled_while_it_is_asked_back(void **state AS_UNUSED)
{
    struct request *q = wait_behind();
    uint64_t stream = d_hand->streams[3];

    e_hand = serve_http(1, "e");
    expect(d_hand, AS_FRAME_RECALL);
    send_upload(q);
    as_fleet_client_cancel(&w.client, &q->call);
    as_frame_put_ids(&d_hand->out, AS_FRAME_RETURNED, &stream, 1);
    UNTIL(q->released);
    assert_int_equal(uploads[q - w.q].taken, 1);
    assert_int_equal(w.killed, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_begin_with_one_head),
        cmocka_unit_test(bytes_keep_to_their_window),
        cmocka_unit_test(nothing_follows_the_end),
        cmocka_unit_test(messages_are_of_websockets),
        cmocka_unit_test(bytes_of_a_websocket_are_of_messages),
        cmocka_unit_test(an_upload_that_goes_on_is_not_asked_back),
        cmocka_unit_test(an_upload_goes_on_when_it_is_known_where),
        cmocka_unit_test(an_upload_is_cancelled_while_it_is_asked_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
