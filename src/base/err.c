#include "base/err.h"

#include <string.h>

struct row {
    const char *name;
    const char *text;
    uint32_t grpc;
    uint32_t http;
    bool retryable;
};

static const struct row rows[AS_ERR_ROWS] = {[0] = {"OK", "ok", 0, 200, false},
#define X(name, text, grpc, http, retry) [AS_##name##_ROW] = {#name, text, grpc, http, retry},
                                             AS_ERR_TABLE(X)
#undef X
};

/* Indexed by gRPC status code, 0 to 16. */
static const struct {
    const char *name;
    uint32_t http;
} statuses[] = {
    {"OK", 200},
    {"CANCELLED", 499},
    {"UNKNOWN", 500},
    {"INVALID_ARGUMENT", 400},
    {"DEADLINE_EXCEEDED", 504},
    {"NOT_FOUND", 404},
    {"ALREADY_EXISTS", 409},
    {"PERMISSION_DENIED", 403},
    {"RESOURCE_EXHAUSTED", 429},
    {"FAILED_PRECONDITION", 400},
    {"ABORTED", 409},
    {"OUT_OF_RANGE", 400},
    {"UNIMPLEMENTED", 501},
    {"INTERNAL", 500},
    {"UNAVAILABLE", 503},
    {"DATA_LOSS", 500},
    {"UNAUTHENTICATED", 401},
};

/* A number without a row is our own bug; callers see AS_EINTERNAL. */
static const struct row *row_of(int err)
{
    if (err > 0 || err <= -(int)AS_ERR_ROWS)
        err = AS_EINTERNAL;
    return &rows[-err];
}

const char *as_err_name(int err)
{
    return row_of(err)->name;
}

const char *as_err_text(int err)
{
    return row_of(err)->text;
}

uint32_t as_err_grpc(int err)
{
    return row_of(err)->grpc;
}

uint32_t as_err_http(int err)
{
    return row_of(err)->http;
}

bool as_err_retryable(int err)
{
    return row_of(err)->retryable;
}

int as_grpc_status_of(const char *name)
{
    for (size_t i = 0; i < AS_COUNT(statuses); i++) {
        if (strcmp(statuses[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

const char *as_grpc_status_name(uint32_t status)
{
    return status < AS_COUNT(statuses) ? statuses[status].name : NULL;
}

uint32_t as_grpc_status_http(uint32_t status)
{
    return status < AS_COUNT(statuses) ? statuses[status].http : 500;
}
