/* wire/reflect.h — gRPC server reflection: one question in, one answer out.
 *
 * Source: proto/grpc/reflection/. v1 and v1alpha are the same on the wire, so one function answers
 * both. It knows the services of proto/ by the FileDescriptorSet that protoc makes of it at build
 * time. Small and cold: allocates as it goes, over protobuf-c's generated code. Pure.
 */
#ifndef AS_WIRE_REFLECT_H
#define AS_WIRE_REFLECT_H

#include "base/buf.h"
#include "base/err.h"

#define AS_REFLECT_REQUEST_MAX 65536u /* bytes of a question; the caller's bound */

/* ServerReflectionRequest → ServerReflectionResponse, appended. What is unknown is an answer too
 * (its error_response). AS_EPROTO: the question is malformed, or not UTF-8. AS_ENOMEM. */
int as_reflect_answer(const uint8_t *p, size_t n, struct as_buf *out);

/* The serialised FileDescriptorProto of the file that declares a full name ("package.Message",
 * "package.Service.Method"); empty: none does. */
struct as_str as_reflect_find_symbol(struct as_str name);
struct as_str as_reflect_find_file(struct as_str name);

#endif
