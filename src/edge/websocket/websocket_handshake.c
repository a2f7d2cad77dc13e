#include "edge/websocket/websocket.h"
#include "wire/ws/ws_handshake.h"

bool as_websocket_check(struct as_exchange *x)
{
    static const struct as_http_header version = {{"sec-websocket-version", 21}, {"13", 2}};
    const char *why;
    uint32_t status = as_ws_handshake_check(x->head, &why);

    if (status)
        x->kind->fail(x, status, as_str_of(why), &version, status == 426);
    return !status;
}

bool as_websocket_put_fields(const struct as_exchange *x, const struct as_http_header *fields,
                             uint32_t n_fields, struct as_http_header *h, uint32_t *ret_n)
{
    uint32_t n = *ret_n, protocols = 0;

    for (uint32_t i = 0; i < n_fields; i++) {
        if (as_ws_handshake_is_own_field(fields[i].name))
            continue;
        if (as_str_eq(fields[i].name, AS_STR("sec-websocket-protocol")) &&
            (protocols++ || !as_ws_handshake_offers(x->head, fields[i].value)))
            return false;
        h[n++] = fields[i];
    }
    *ret_n = n;
    return true;
}
