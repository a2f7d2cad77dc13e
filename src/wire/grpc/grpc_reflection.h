/* wire/grpc/grpc_reflection.h — gRPC server reflection: one request in, one response out.
 *
 * Source: proto/grpc/reflection/. v1 and v1alpha are the same on the wire, so one function answers
 * both. The services of proto/ are known from FileDescriptorSets that protoc makes at build time:
 * one per listener, with the services of that listener. Rarely called: it allocates memory as
 * needed, over protobuf-c's generated code. Pure.
 */
#ifndef AS_WIRE_GRPC_REFLECTION_H
#define AS_WIRE_GRPC_REFLECTION_H

#include "base/buf.h"
#include "base/err.h"

enum as_grpc_reflection_set {
    AS_GRPC_REFLECTION_CLIENTS,    /* inference, health, reflection */
    AS_GRPC_REFLECTION_MANAGEMENT, /* worker management, health, reflection */
};

#define AS_GRPC_REFLECTION_REQUEST_MAX 65536u /* maximum bytes of a request */

/* Which services there are: those of a listener, and those of the user. */
struct as_grpc_reflection_source {
    enum as_grpc_reflection_set set;
    const struct as_str *sets; /* FileDescriptorSets of the user; may be malformed */
    uint32_t n_sets;
    const struct as_str *services; /* "package.Service" of the user, for the list */
    uint32_t n_services;
};

/* Parses a ServerReflectionRequest and appends the ServerReflectionResponse. A request for
 * something unknown is answered with an error_response. 0; AS_EPROTO: the request is malformed, or
 * not UTF-8; AS_ENOMEM. */
int as_grpc_reflection_answer(const struct as_grpc_reflection_source *from, const uint8_t *p,
                              size_t n, struct as_buf *out);

/* The serialised FileDescriptorProto of the file that declares a full name ("package.Message",
 * "package.Service.Method"); empty: there is none. */
struct as_str as_grpc_reflection_find_symbol(enum as_grpc_reflection_set set, struct as_str name);

#endif
