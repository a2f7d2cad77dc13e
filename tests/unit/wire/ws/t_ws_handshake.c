/* Specification of wire/ws/ws_handshake: which requests open a websocket (RFC 6455 §4.2). */
#include "wire/ws/ws_handshake.h"

#include "unit.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="

/* A correct request; tests change a part of it. */
struct request {
    struct as_http_header fields[8];
    struct as_http_head head;
};

static void make(struct request *r)
{
    *r = (struct request){.fields = {{AS_STR("sec-websocket-key"), AS_STR(KEY)},
                                     {AS_STR("sec-websocket-version"), AS_STR("13")}},
                          .head = {.method = AS_STR("GET"),
                                   .path = AS_STR("/"),
                                   .n_rest = 2,
                                   .end_stream = true,
                                   .wants_websocket = true}};
    r->head.rest = r->fields;
}

static void check(struct request *r, uint32_t status, const char *why)
{
    const char *got;

    assert_int_equal(as_ws_handshake_check(&r->head, &got), status);
    if (why)
        assert_string_equal(got, why);
    else
        assert_null(got);
}

static void add(struct request *r, const char *name, const char *value)
{
    r->fields[r->head.n_rest++] = (struct as_http_header){as_str_of(name), as_str_of(value)};
}

/* The example of RFC 6455 §1.3. */
static void the_key_is_answered(void **state AS_UNUSED)
{
    struct request r;
    char text[AS_WS_ACCEPT + 1] = "";

    make(&r);
    check(&r, 0, NULL);
    assert_true(as_ws_handshake_accept(&r.head, text));
    assert_string_equal(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void keys_that_are_none(void **state AS_UNUSED)
{
    static const char *bad[] = {"",
                                "short",
                                KEY "A",
                                "dGhlIHNhbXBsZSBub25jZQ=x",
                                "dGhlIHNhbXBsZSBub25jZR==", /* bits beyond 16 bytes */
                                "dGhlIHNhbXBsZSBub25j!Q==",
                                "dGhlIHNhbXBsZSBub25jZQAA"};
    struct request r;

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        make(&r);
        r.fields[0].value = as_str_of(bad[i]);
        check(&r, 400, "sec-websocket-key is not base64 of 16 bytes");
    }
    make(&r);
    r.fields[0].name = AS_STR("x");
    check(&r, 400, "sec-websocket-key is missing");
    make(&r);
    add(&r, "sec-websocket-key", KEY);
    check(&r, 400, "a second sec-websocket-key");
}

static void only_version_13(void **state AS_UNUSED)
{
    struct request r;

    make(&r);
    r.fields[1].value = AS_STR("8");
    check(&r, 426, "sec-websocket-version is not 13");
    r.fields[1].value = AS_STR("13, 8");
    check(&r, 426, "sec-websocket-version is not 13");
    r.fields[1].name = AS_STR("x");
    check(&r, 426, "sec-websocket-version is missing");
    make(&r);
    add(&r, "sec-websocket-version", "13");
    check(&r, 426, "sec-websocket-version is not 13");
}

static void it_is_a_get_without_a_body(void **state AS_UNUSED)
{
    struct request r;

    make(&r);
    r.head.method = AS_STR("POST");
    check(&r, 400, "the method of a websocket's handshake is GET");
    make(&r);
    r.head.end_stream = false;
    check(&r, 400, "a websocket's handshake has no body");
}

static void subprotocols(void **state AS_UNUSED)
{
    struct request r;

    make(&r);
    assert_false(as_ws_handshake_offers(&r.head, AS_STR("chat")));
    add(&r, "sec-websocket-protocol", "chat, Super.Chat");
    add(&r, "sec-websocket-protocol", "v2");
    check(&r, 0, NULL);
    assert_true(as_ws_handshake_offers(&r.head, AS_STR("chat")));
    assert_true(as_ws_handshake_offers(&r.head, AS_STR("Super.Chat")));
    assert_true(as_ws_handshake_offers(&r.head, AS_STR("v2")));
    assert_false(as_ws_handshake_offers(&r.head, AS_STR("super.chat"))); /* case matters */
    assert_false(as_ws_handshake_offers(&r.head, AS_STR("")));
    r.fields[3].value = AS_STR("a b");
    check(&r, 400, "sec-websocket-protocol is not a list of tokens");
    r.fields[3].value = AS_STR("a,,b");
    check(&r, 400, "sec-websocket-protocol is not a list of tokens");
    r.fields[3].value = AS_STR("");
    check(&r, 400, "sec-websocket-protocol is empty");
}

/* RFC 8441: extended CONNECT has neither GET nor key. */
static void over_http_2(void **state AS_UNUSED)
{
    struct request r;
    char text[AS_WS_ACCEPT];

    make(&r);
    r.head.method = AS_STR("CONNECT");
    r.head.end_stream = false;
    r.fields[0] = r.fields[1];
    r.head.n_rest = 1;
    check(&r, 0, NULL);
    assert_false(as_ws_handshake_accept(&r.head, text));
    r.head.n_rest = 0;
    check(&r, 426, "sec-websocket-version is missing");
}

static void fields_of_the_server(void **state AS_UNUSED)
{
    assert_true(as_ws_handshake_is_own_field(AS_STR("sec-websocket-accept")));
    assert_true(as_ws_handshake_is_own_field(AS_STR("sec-websocket-extensions")));
    assert_false(as_ws_handshake_is_own_field(AS_STR("sec-websocket-protocol")));
    assert_false(as_ws_handshake_is_own_field(AS_STR("set-cookie")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_is_answered),  cmocka_unit_test(keys_that_are_none),
        cmocka_unit_test(only_version_13),      cmocka_unit_test(it_is_a_get_without_a_body),
        cmocka_unit_test(subprotocols),         cmocka_unit_test(over_http_2),
        cmocka_unit_test(fields_of_the_server),
    };

    return cmocka_run_group_tests_name("ws_handshake", tests, NULL, NULL);
}
