/* wire/grpc/grpc_reflection.h — gRPC server reflection: one question in, one answer out.
 *
 * Source: proto/grpc/reflection/. v1 and v1alpha are the same on the wire, so one function answers
 * both. It knows the services of proto/ by the FileDescriptorSets that protoc makes of it at build
 * time: one for each door, with what is served there. Small and cold: allocates as it goes, over
 * protobuf-c's generated code. Pure.
 */
#ifndef AS_WIRE_REFLECT_H
#define AS_WIRE_REFLECT_H

#include "base/buf.h"
#include "base/err.h"

enum as_grpc_reflection_set {
    AS_GRPC_REFLECTION_CLIENTS,    /* inference, health, reflection */
    AS_GRPC_REFLECTION_MANAGEMENT, /* worker management, health, reflection */
};

#define AS_GRPC_REFLECTION_REQUEST_MAX 65536u /* bytes of a question; the caller's bound */

/* ServerReflectionRequest → ServerReflectionResponse, appended. What is unknown is an answer too
 * (its error_response). AS_EPROTO: the question is malformed, or not UTF-8. AS_ENOMEM. */
int as_grpc_reflection_answer(enum as_grpc_reflection_set set, const uint8_t *p, size_t n,
                              struct as_buf *out);

/* The serialised FileDescriptorProto of the file that declares a full name ("package.Message",
 * "package.Service.Method"); empty: none does. */
struct as_str as_grpc_reflection_find_symbol(enum as_grpc_reflection_set set, struct as_str name);
struct as_str as_grpc_reflection_find_file(enum as_grpc_reflection_set set, struct as_str name);

#endif
