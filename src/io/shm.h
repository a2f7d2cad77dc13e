/* io/shm.h — regions of POSIX shared memory that clients lend to the server.
 *
 * A region is a range of one shared memory object, opened when it is registered and known by the
 * name that the client gave it. Only a user who could open the object too may register it, and a
 * region is there for its user only: users have names of their own. It is never mapped: a client
 * may shrink the object at any time, and touching what is gone would kill the process (SIGBUS).
 * Reads and writes go through the descriptor, where what is gone is an error; they copy, as reading
 * from a socket does. One table for all loops, behind a mutex: a region that one connection
 * registered is there for the next request of any other. Any thread.
 */
#ifndef AS_IO_SHM_H
#define AS_IO_SHM_H

#include "base/err.h"
#include "base/str.h"

#include <sys/types.h>

#define AS_SHM_NAME_MAX   255u        /* bytes of a region's name, and of a key */
#define AS_SHM_OWN_PREFIX "anyserve." /* objects whose name begins so are not for clients */

struct as_shm;

struct as_shm_conf {
    uint32_t max_regions;
    uint64_t max_bytes; /* of all regions */
    const char *prefix; /* of the names of objects that may be registered; "": any */
};

/* 0 or AS_EIO. */
int as_shm_new(struct as_shm **ret_t, const struct as_shm_conf *conf);
void as_shm_free(struct as_shm *t); /* nobody uses it any more */

/* All of these: `user` is the client's (io/socket/peer.h); 0 or an error with one line in `why`
 * (cap bytes, NUL at the end) that names the region. */

/* AS_EEXISTS: the name is taken; AS_ENOTFOUND: no such object; AS_EDENIED: not ours, or not the
 * user's, to read and write, or not a name for clients; AS_EINVALID: bad name or key, no bytes, a
 * range beyond the object's end; AS_EFULL: over a limit of conf; AS_EIO: no descriptor. */
int as_shm_register(struct as_shm *t, uid_t user, struct as_str name, struct as_str key,
                    uint64_t offset, uint64_t size, char *why, size_t cap);
/* One region of the user, or all when the name is empty. Who reads or writes one just now still
 * may. How many there were. */
uint32_t as_shm_unregister(struct as_shm *t, uid_t user, struct as_str name);
/* n bytes from `offset` of the region on. AS_ENOTFOUND: no such region; AS_EINVALID: beyond its
 * end, or the object has become smaller; AS_EIO. */
int as_shm_read(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset, uint8_t *out,
                size_t n, char *why, size_t cap);
int as_shm_write(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset,
                 const uint8_t *p, size_t n, char *why, size_t cap);
/* The checks of a read of so many bytes, without reading. */
int as_shm_check(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset, uint64_t n,
                 char *why, size_t cap);

/* Visits the user's region of that name, or all of them; `fn` may not call back into the table, and
 * the strings are gone when it returns. How many there were. */
uint32_t as_shm_each(struct as_shm *t, uid_t user, struct as_str name,
                     void (*fn)(void *arg, struct as_str name, struct as_str key, uint64_t offset,
                                uint64_t size),
                     void *arg);

#endif
