/* tests/conform/service/call.h — what stands between a connection and the test service: one call.
 *
 * The connection (main.c) takes requests apart with wire/grpc/grpc and gives the service whole
 * messages; the service (service.c) collects messages to send and ends the call with a status. Test
 * code: it trusts its client to be grpc's own, and is bounded only against mistakes.
 */
#ifndef AS_TESTS_CONFORM_CALL_H
#define AS_TESTS_CONFORM_CALL_H

#include "base/buf.h"
#include "base/memory/arena.h"
#include "wire/grpc/grpc.h"
#include "wire/h2/h2.h"

#define CALL_PIECES 64u /* of all messages of an answer */

struct call {
    struct conn *conn;
    uint32_t stream;
    const struct as_http_head *head;
    const struct method *method; /* NULL: unknown */
    struct as_grpc_reader reader;
    struct as_buf message; /* the one being received */
    uint64_t received;     /* bytes of payloads, of StreamingInputCall */
    struct as_arena arena; /* what the pieces point to */
    struct as_http_piece pieces[CALL_PIECES];
    uint32_t n_pieces;
    bool open; /* the answer has begun, and more of it may come: call_flush */
    bool done; /* answered, reset or gone */
};

struct method {
    struct as_str path;
    void (*on_message)(struct call *c, struct as_str message);
    void (*on_end)(struct call *c); /* the client has no more messages */
    uint32_t min_messages, max_messages;
};
const struct method *method_find(struct as_str path);

/* Adds one message: `head`, then `zeros` bytes of 0, then `tail`. False: the answer is too large.
 */
bool call_send(struct call *c, struct as_str head, size_t zeros, struct as_str tail);
/* The messages go out now; more may follow. */
void call_flush(struct call *c);
/* The messages and a status go out; nothing follows. An error drops the messages. */
void call_end(struct call *c, uint32_t status, struct as_str text);

#endif
