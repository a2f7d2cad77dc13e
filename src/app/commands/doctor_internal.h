/* app/commands/doctor_internal.h — shared by the files of the doctor only: doctor.c checks the
 * machine, doctor_server.c the server that runs. */
#ifndef AS_APP_DOCTOR_INTERNAL_H
#define AS_APP_DOCTOR_INTERNAL_H

#include "base/buf.h"
#include "conf/option/option.h"

#include <sys/types.h>

enum as_doctor_verdict { AS_DOCTOR_OK, AS_DOCTOR_WARN, AS_DOCTOR_FAIL, AS_DOCTOR_VERDICTS };

struct as_doctor_server {
    char *base; /* --runtime-dir */
    uint16_t port;
    bool is_running;
    pid_t dispatcher; /* 0: there is no server, or it does not answer */
    pid_t worker;     /* any of its workers, or 0 */
    char *state_dir;  /* NULL: the server did not report it */
};

struct as_doctor {
    const struct as_option_set *opts;
    bool json;
    uint32_t n[AS_DOCTOR_VERDICTS]; /* how many checks had each verdict */
    struct as_buf out;
    struct as_doctor_server server;
};

/* Adds the result of a check to d->out. advice: what to do about it; "": nothing. */
void as_doctor_report(struct as_doctor *d, const char *check, enum as_doctor_verdict v,
                      const char *advice, const char *fmt, ...) AS_PRINTF(5, 6);

/* Finds the server that the options select, sets d->server, and checks the server and what it
 * serves.
 */
void as_doctor_check_server(struct as_doctor *d);
void as_doctor_server_fini(struct as_doctor *d);

/* The soft limit `name` of /proc/PID/limits; UINT64_MAX: unlimited. False: it cannot be read. */
bool as_doctor_read_limit(pid_t pid, const char *name, uint64_t *ret_n);
/* How many descriptors the process has open. False: no permission, or it has ended. */
bool as_doctor_count_files(pid_t pid, uint32_t *ret_n);

#endif
