/* app/commands/doctor_internal.h — between the files of the doctor: doctor.c looks at the machine,
 * doctor_server.c at the server that runs. */
#ifndef AS_APP_DOCTOR_OWN_H
#define AS_APP_DOCTOR_OWN_H

#include "base/buf.h"
#include "conf/option.h"

#include <sys/types.h>

enum as_doctor_verdict { AS_DOCTOR_OK, AS_DOCTOR_WARN, AS_DOCTOR_FAIL, AS_DOCTOR_VERDICTS };

struct as_doctor_server {
    char *base; /* of the runtime folders */
    uint16_t port;
    bool lives;
    pid_t dispatcher; /* 0: there is no server, or it does not answer */
    pid_t worker;     /* one of its workers, or 0 */
    char *state;      /* where it keeps what it serves; NULL: it did not say */
};

struct as_doctor {
    const struct as_option_set *opts;
    bool json;
    uint32_t n[AS_DOCTOR_VERDICTS];
    struct as_buf out;
    struct as_doctor_server server;
};

/* advice: what to do about it; "" where nothing is. */
void as_doctor_report(struct as_doctor *d, const char *check, enum as_doctor_verdict v,
                      const char *advice, const char *fmt, ...) AS_PRINTF(5, 6);

/* Finds the server that the options mean, tells of it and of what it serves, and fills d->server
 * in.
 */
void as_doctor_server(struct as_doctor *d);
void as_doctor_server_fini(struct as_doctor *d);

/* The soft limit of a process, a line of /proc/PID/limits; UINT64_MAX: unlimited. */
bool as_doctor_read_limit(pid_t pid, const char *name, uint64_t *ret_n);
/* How many descriptors it has; false: it is not ours to look. */
bool as_doctor_count_files(pid_t pid, uint32_t *ret_n);

#endif
