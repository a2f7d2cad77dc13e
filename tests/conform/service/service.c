/* tests/conform/service/service.c — grpc.testing.TestService, as gRPC's interoperability tests ask
 * for it.
 *
 * Messages and rules: grpc/grpc-proto grpc/testing/messages.proto and gRPC's
 * doc/interop-test-descriptions.md.
 */
#include "call.h"

#include "wire/protobuf/pb.h"

#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 3, INTERNAL = 13 };

struct request { /* SimpleRequest, StreamingOutputCallRequest */
    int64_t sizes[16];
    uint32_t n_sizes;
    bool wants_server_id;
    uint32_t status;
    struct as_str text;
};

/* --- messages --- */

/* EchoStatus{code=1, message=2} */
static int read_status(struct as_str s, struct request *r)
{
    struct as_pb pb = as_pb_of(s);
    struct as_pb_field f;
    int more;

    while ((more = as_pb_next(&pb, &f)) > 0) {
        if (f.number == 1 && f.wire == AS_PB_VARINT)
            r->status = (uint32_t)f.v;
        else if (f.number == 2 && f.wire == AS_PB_LEN)
            r->text = f.s;
    }
    return more;
}

/* ResponseParameters{size=1}; the waiting that it may ask for is not done. */
static int read_parameters(struct as_str s, struct request *r)
{
    struct as_pb pb = as_pb_of(s);
    struct as_pb_field f;
    int more;

    if (r->n_sizes == AS_COUNT(r->sizes))
        return AS_ETOOBIG;
    r->sizes[r->n_sizes] = 0;
    while ((more = as_pb_next(&pb, &f)) > 0)
        if (f.number == 1 && f.wire == AS_PB_VARINT)
            r->sizes[r->n_sizes] = (int32_t)f.v;
    r->n_sizes++;
    return more;
}

/* SimpleRequest{response_size=2, response_status=7, fill_server_id=9} */
static int read_simple(struct as_str s, struct request *r)
{
    struct as_pb pb = as_pb_of(s);
    struct as_pb_field f;
    int more, err = 0;

    *r = (struct request){.n_sizes = 1};
    while (!err && (more = as_pb_next(&pb, &f)) != 0) {
        if (more < 0)
            err = more;
        else if (f.number == 2 && f.wire == AS_PB_VARINT)
            r->sizes[0] = (int32_t)f.v;
        else if (f.number == 7 && f.wire == AS_PB_LEN)
            err = read_status(f.s, r);
        else if (f.number == 9 && f.wire == AS_PB_VARINT)
            r->wants_server_id = f.v;
    }
    return err;
}

/* StreamingOutputCallRequest{response_parameters=2, response_status=7} */
static int read_output(struct as_str s, struct request *r)
{
    struct as_pb pb = as_pb_of(s);
    struct as_pb_field f;
    int more, err = 0;

    *r = (struct request){0};
    while (!err && (more = as_pb_next(&pb, &f)) != 0) {
        if (more < 0)
            err = more;
        else if (f.number == 2 && f.wire == AS_PB_LEN)
            err = read_parameters(f.s, r);
        else if (f.number == 7 && f.wire == AS_PB_LEN)
            err = read_status(f.s, r);
    }
    return err;
}

/* SimpleResponse and StreamingOutputCallResponse{payload=1{body=2}}; SimpleResponse{server_id=4} */
static bool send_payload(struct call *c, int64_t size, struct as_str server_id)
{
    uint8_t head[32], tail[64], *p = head, *t = tail;
    size_t n = (size_t)size, body = n ? as_pb_len_len(n) : 0;

    if (size < 0) {
        call_end(c, INVALID_ARGUMENT, AS_STR("a response of negative size"));
        return false;
    }
    p = as_pb_put_head(p, 1, body);
    if (n)
        p = as_pb_put_head(p, 2, n);
    t = as_pb_put_opt(t, 4, server_id);
    if (call_send(c, (struct as_str){(char *)head, (size_t)(p - head)}, n,
                  (struct as_str){(char *)tail, (size_t)(t - tail)}))
        return true;
    call_end(c, INVALID_ARGUMENT, AS_STR("a response of more bytes than this service sends"));
    return false;
}

static bool is_malformed(struct call *c, int err)
{
    if (err)
        call_end(c, INTERNAL, AS_STR("the request is no message of this method"));
    return err != 0;
}

/* --- methods --- */

static void end_ok(struct call *c)
{
    call_end(c, OK, AS_STR(""));
}

static void on_empty(struct call *c, struct as_str message)
{
    struct as_pb pb = as_pb_of(message);
    struct as_pb_field f;
    int more;

    while ((more = as_pb_next(&pb, &f)) > 0)
        ;
    if (!is_malformed(c, more))
        call_send(c, AS_STR(""), 0, AS_STR(""));
}

static void on_simple(struct call *c, struct as_str message)
{
    struct request r;
    char id[24] = "";

    if (is_malformed(c, read_simple(message, &r)))
        return;
    if (r.status) {
        call_end(c, r.status, r.text);
        return;
    }
    if (r.wants_server_id)
        snprintf(id, sizeof(id), "%d", (int)getpid());
    send_payload(c, r.sizes[0], as_str_of(id));
}

static void on_output(struct call *c, struct as_str message)
{
    struct request r;

    if (is_malformed(c, read_output(message, &r)))
        return;
    if (r.status) {
        call_end(c, r.status, r.text);
        return;
    }
    for (uint32_t i = 0; i < r.n_sizes; i++)
        if (!send_payload(c, r.sizes[i], AS_STR("")))
            return;
}

static void on_duplex(struct call *c, struct as_str message)
{
    on_output(c, message);
    call_flush(c);
}

/* StreamingInputCallRequest{payload=1{body=2}} */
static void on_input(struct call *c, struct as_str message)
{
    struct as_pb pb = as_pb_of(message), payload;
    struct as_pb_field f;
    int more;

    while ((more = as_pb_next(&pb, &f)) > 0) {
        if (f.number != 1 || f.wire != AS_PB_LEN)
            continue;
        payload = as_pb_of(f.s);
        while ((more = as_pb_next(&payload, &f)) > 0)
            if (f.number == 2 && f.wire == AS_PB_LEN)
                c->received += f.s.n;
        if (more < 0)
            break;
    }
    is_malformed(c, more);
}

/* StreamingInputCallResponse{aggregated_payload_size=1} */
static void on_input_end(struct call *c)
{
    uint8_t out[16], *p = out;

    *p++ = AS_PB_TAG(1, AS_PB_VARINT);
    p = as_pb_put_varint(p, c->received);
    call_send(c, (struct as_str){(char *)out, c->received ? (size_t)(p - out) : 0}, 0, AS_STR(""));
    end_ok(c);
}

#define PATH(name)                                                                                 \
    {                                                                                              \
        "/grpc.testing.TestService/" name, sizeof("/grpc.testing.TestService/" name) - 1           \
    }

const struct method *method_find(struct as_str path)
{
    static const struct method all[] = {
        {PATH("EmptyCall"), on_empty, end_ok, 1, 1},
        {PATH("UnaryCall"), on_simple, end_ok, 1, 1},
        {PATH("CacheableUnaryCall"), on_simple, end_ok, 1, 1},
        {PATH("StreamingOutputCall"), on_output, end_ok, 1, 1},
        {PATH("StreamingInputCall"), on_input, on_input_end, 0, UINT32_MAX},
        {PATH("HalfDuplexCall"), on_output, end_ok, 0, UINT32_MAX},
        {PATH("FullDuplexCall"), on_duplex, end_ok, 0, UINT32_MAX},
    };

    for (size_t i = 0; i < AS_COUNT(all); i++)
        if (as_str_eq(path, all[i].path))
            return &all[i];
    return NULL;
}
