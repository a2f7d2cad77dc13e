/* wire/grpc/grpc_health.h — the messages of grpc.health.v1.Health, over protobuf-c's generated
 * code.
 *
 * Source: proto/grpc/health/v1/health.proto. Rarely called: it allocates memory as needed. Pure.
 */
#ifndef AS_WIRE_GRPC_HEALTH_H
#define AS_WIRE_GRPC_HEALTH_H

#include "base/buf.h"
#include "base/err.h"

enum as_grpc_health { /* ServingStatus */
                      AS_GRPC_HEALTH_UNKNOWN = 0,
                      AS_GRPC_HEALTH_SERVING = 1,
                      AS_GRPC_HEALTH_NOT_SERVING = 2,
                      AS_GRPC_HEALTH_SERVICE_UNKNOWN = 3
};

#define AS_GRPC_HEALTH_RESPONSE_MAX 16u /* bytes of a HealthCheckResponse, with some to spare */

/* Parses a HealthCheckRequest: appends the name of the service. 0; AS_EPROTO: malformed, or not
 * UTF-8; AS_ENOMEM. */
int as_grpc_health_parse(const uint8_t *p, size_t n, struct as_buf *ret_service);
/* Writes a HealthCheckResponse; returns its length. */
size_t as_grpc_health_put(uint8_t out[AS_GRPC_HEALTH_RESPONSE_MAX], enum as_grpc_health status);

struct as_grpc_health_entry {
    char *service;
    enum as_grpc_health status;
};
/* Appends a HealthListResponse. 0 or AS_ENOMEM. */
int as_grpc_health_put_list(struct as_buf *out, const struct as_grpc_health_entry *rows, size_t n);

#endif
