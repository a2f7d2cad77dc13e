/* io/process/resource_holder.h — which process of this machine has a port or a file, as /proc says.
 *
 * For texts that tell why something cannot be had: a process may end at any moment, and those of
 * other users cannot be looked into. Blocking calls, without libuv, for commands and for start-up.
 */
#ifndef AS_IO_PROCESS_RESOURCE_HOLDER_H
#define AS_IO_PROCESS_RESOURCE_HOLDER_H

#include "io/process/runtime.h"

#include <sys/types.h>

struct as_resource_holder {
    pid_t pid;
    char program[64];                      /* as the kernel shortens its name */
    char started_in[256];                  /* its working directory; "": not known */
    bool is_server;                        /* of ours; then it is the supervisor, and … */
    char runtime_dir[AS_RUNTIME_PATH_MAX]; /* … this is its --runtime-dir … */
    uint16_t port;                         /* … and its port */
};

/* Who listens on this TCP port, on any address. False: nobody, or nobody who can be looked into. */
bool as_resource_holder_of_port(struct as_resource_holder *ret_h, uint16_t port);
/* Who but this process has the file open. Likewise. */
bool as_resource_holder_of_file(struct as_resource_holder *ret_h, const char *path);
/* A server that lives, found by its folder. False: it has ended. */
bool as_resource_holder_of_folder(struct as_resource_holder *ret_h, const char *runtime_dir,
                                  uint16_t port);

/* "pid 12, started in /srv, runtime directory /run/anyserve". */
void as_resource_holder_write(const struct as_resource_holder *h, struct as_buf *out);

#endif
