/* wire/triton/message_json.h — writes a message of protobuf-c's generated code as JSON.
 *
 * Triton's JSON bodies have the members of its protobuf messages, by name: every field of a message
 * that is set, numbers and lists also when they are 0 or empty, an enumeration by the name of its
 * value, a map as an object. Only types of fields that Triton's answers have are known. Pure.
 */
#ifndef AS_WIRE_MESSAGE_JSON_H
#define AS_WIRE_MESSAGE_JSON_H

#include "wire/protobuf/pb_pack.h"

/* Appends the message. */
void as_message_json(const ProtobufCMessage *m, struct as_buf *out);
/* Appends an array of n messages. */
void as_message_json_list(void *const *rows, size_t n, struct as_buf *out);
/* Appends the message, as protobuf or as JSON. 0 or AS_ENOMEM. */
int as_message_put(const ProtobufCMessage *m, bool json, struct as_buf *out);

#endif
