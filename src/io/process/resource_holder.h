/* io/process/resource_holder.h — finds the process of this machine that has a port or a file open.
 *
 * Read from /proc, for messages that say who has a resource that we need. A process may end at any
 * moment, and processes of other users are not readable. Blocking calls without libuv, for commands
 * and for start-up.
 */
#ifndef AS_IO_RESOURCE_HOLDER_H
#define AS_IO_RESOURCE_HOLDER_H

#include "io/process/runtime.h"

#include <sys/types.h>

struct as_resource_holder {
    pid_t pid;
    char program[64];     /* its name, as the kernel shortens it */
    char started_in[256]; /* its working directory; "": unknown */
    bool is_server;       /* an AnyServe server; then pid is the supervisor's, … */
    char runtime_dir[AS_RUNTIME_PATH_MAX]; /* … this is its --runtime-dir … */
    uint16_t port;                         /* … and its port */
};

/* The process that listens on this TCP port, on any address. False: none, or none is readable. */
bool as_resource_holder_of_port(struct as_resource_holder *ret_h, uint16_t port);
/* A process other than this one that has the file open. Likewise. */
bool as_resource_holder_of_file(struct as_resource_holder *ret_h, const char *path);
/* The server that runs in this folder. False: none runs there. */
bool as_resource_holder_of_folder(struct as_resource_holder *ret_h, const char *runtime_dir,
                                  uint16_t port);

/* Appends "pid 12, started in /srv, runtime directory /run/anyserve". */
void as_resource_holder_write(const struct as_resource_holder *h, struct as_buf *out);

#endif
