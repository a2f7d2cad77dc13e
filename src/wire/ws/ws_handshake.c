#include "wire/ws/ws_handshake.h"

#include "base/digest/sha1.h"
#include "wire/http/http_field.h"

#define KEY_TEXT 24u /* base64 of 16 bytes */
#define GUID     "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static const struct as_str protocol_field = {"sec-websocket-protocol", 22};

static bool is_over_h2(const struct as_http_head *head)
{
    return as_str_eq(head->method, AS_STR("CONNECT"));
}

/* Base64 of exactly 16 bytes: 22 characters, of which the last has only two bits, and "==". */
static bool is_key(struct as_str key)
{
    const char *c = NULL;

    if (key.n != KEY_TEXT || key.p[KEY_TEXT - 1] != '=' || key.p[KEY_TEXT - 2] != '=')
        return false;
    for (size_t i = 0; i < KEY_TEXT - 2; i++) {
        c = key.p[i] ? strchr(base64, key.p[i]) : NULL;
        if (!c)
            return false;
    }
    return (c - base64) % 16 == 0;
}

/* A token of RFC 9110, of either case. */
static bool is_token(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] | 0x20) : s.p[i];

        if (!as_http_field_is_name((struct as_str){&c, 1}))
            return false;
    }
    return s.n > 0;
}

/* NULL, or what is wrong. A list may be sent in several fields. */
static const char *protocols_fault(const struct as_http_head *head)
{
    for (uint32_t i = 0; i < head->n_rest; i++) {
        struct as_str list = head->rest[i].value;

        if (!as_str_eq(head->rest[i].name, protocol_field))
            continue;
        if (!list.n)
            return "sec-websocket-protocol is empty";
        while (list.n) {
            if (!is_token(as_str_split(&list, ',')))
                return "sec-websocket-protocol is not a list of tokens";
        }
    }
    return NULL;
}

static const char *head_fault(const struct as_http_head *head)
{
    uint32_t keys = as_http_head_count(head, AS_STR("sec-websocket-key"));

    if (is_over_h2(head))
        return protocols_fault(head);
    if (!as_str_eq(head->method, AS_STR("GET")))
        return "the method of a websocket's handshake is GET";
    if (!head->end_stream)
        return "a websocket's handshake has no body";
    if (keys != 1)
        return keys ? "a second sec-websocket-key" : "sec-websocket-key is missing";
    if (!is_key(as_http_head_find(head, AS_STR("sec-websocket-key"))))
        return "sec-websocket-key is not base64 of 16 bytes";
    return protocols_fault(head);
}

uint32_t as_ws_handshake_check(const struct as_http_head *head, const char **ret_why)
{
    struct as_str version = as_http_head_find(head, AS_STR("sec-websocket-version"));

    *ret_why = NULL;
    if (!as_str_eq(version, AS_STR("13")) ||
        as_http_head_count(head, AS_STR("sec-websocket-version")) != 1) {
        *ret_why =
            version.n ? "sec-websocket-version is not 13" : "sec-websocket-version is missing";
        return 426;
    }
    *ret_why = head_fault(head);
    return *ret_why ? 400 : 0;
}

bool as_ws_handshake_accept(const struct as_http_head *head, char ret_text[AS_WS_ACCEPT])
{
    struct as_str key = as_http_head_find(head, AS_STR("sec-websocket-key"));
    char text[KEY_TEXT + sizeof(GUID) - 1];
    uint8_t digest[AS_SHA1_BYTES + 1] = {0};

    if (is_over_h2(head) || key.n != KEY_TEXT)
        return false;
    memcpy(text, key.p, KEY_TEXT);
    memcpy(text + KEY_TEXT, GUID, sizeof(GUID) - 1);
    as_sha1((struct as_str){text, sizeof(text)}, digest);
    for (size_t i = 0; i < AS_WS_ACCEPT / 4; i++) { /* of 21 bytes; the last one is padding */
        uint32_t v =
            (uint32_t)digest[3 * i] << 16 | (uint32_t)digest[3 * i + 1] << 8 | digest[3 * i + 2];

        for (unsigned k = 0; k < 4; k++)
            ret_text[4 * i + k] = base64[v >> (18 - 6 * k) & 63];
    }
    ret_text[AS_WS_ACCEPT - 1] = '=';
    return true;
}

bool as_ws_handshake_offers(const struct as_http_head *head, struct as_str protocol)
{
    for (uint32_t i = 0; i < head->n_rest; i++) {
        struct as_str list = head->rest[i].value;

        if (!as_str_eq(head->rest[i].name, protocol_field))
            continue;
        while (list.n) {
            if (as_str_eq(as_str_split(&list, ','), protocol))
                return true;
        }
    }
    return false;
}

bool as_ws_handshake_is_own_field(struct as_str name)
{
    return as_str_eq(name, AS_STR("sec-websocket-accept")) ||
           as_str_eq(name, AS_STR("sec-websocket-extensions")) ||
           as_str_eq(name, AS_STR("sec-websocket-version")) ||
           as_str_eq(name, AS_STR("sec-websocket-key"));
}
