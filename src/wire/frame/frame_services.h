/* wire/frame/frame_services.h — SERVICES: the gRPC services of the user that a deployment serves.
 *
 * docs/protocol/link.md, section 18, is the specification. Pure; the decoder returns slices into
 * the frame and allocates from an arena only.
 */
#ifndef AS_WIRE_FRAME_SERVICES_H
#define AS_WIRE_FRAME_SERVICES_H

#include "wire/frame/frame.h"

#define AS_FRAME_SERVICES_MAX    (48u << 10) /* bytes of the frame's payload */
#define AS_FRAME_SERVICE_METHODS 1024u       /* methods of all services */
#define AS_FRAME_SERVICE_PATH    512u        /* bytes of "/package.Service/Method" */

#define AS_SERVICE_F_INPUTS 0x1u /* the client sends any number of messages */
#define AS_SERVICE_F_PARTS  0x2u /* the server sends any number of messages */

struct as_frame_service_method {
    struct as_str path; /* "/package.Service/Method" */
    uint32_t flags;     /* AS_SERVICE_F_… */
};

struct as_frame_services {
    const struct as_frame_service_method *methods; /* in the order of memcmp, each path once */
    uint32_t n;
    struct as_str descriptors; /* a FileDescriptorSet with all that the services need, not looked
                                  into; may be empty */
};

/* "/package.Service/Method": printable ASCII without space, two slashes, nothing empty. */
bool as_frame_service_is_path(struct as_str path);
/* Writes the frame (flag OPTIONAL). 0; AS_EINVALID with nothing written: what
 * as_frame_get_services would refuse. */
int as_frame_put_services(struct as_outq *q, const struct as_frame_services *s);
/* 0; AS_EPROTO with a reason in *ret_why (static text); AS_ENOMEM. */
int as_frame_get_services(const struct as_frame *f, struct as_arena *a,
                          struct as_frame_services *ret_s, const char **ret_why);

#endif
