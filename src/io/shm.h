/* io/shm.h — the table of regions of POSIX shared memory that clients have registered.
 *
 * A region is a range of one shared memory object, which is opened when the region is registered,
 * and has a name that the client chose. A user may only register an object that the user could open
 * too, and only that user's clients can use the region: each user has names of their own. A region
 * is never mapped: a client may shrink the object at any time, and an access behind its new end
 * would kill the process (SIGBUS). Reads and writes use the descriptor, where that is an error;
 * they copy, as reading from a socket does. All loops share one table, protected by a mutex: a
 * region that one connection registers can be used by all connections of the user. Any thread.
 */
#ifndef AS_IO_SHM_H
#define AS_IO_SHM_H

#include "base/err.h"
#include "base/str.h"

#include <sys/types.h>

#define AS_SHM_NAME_MAX   255u        /* bytes of a region's name, and of a key */
#define AS_SHM_OWN_PREFIX "anyserve." /* clients cannot register objects with this prefix */

struct as_shm;

struct as_shm_conf {
    uint32_t max_regions;
    uint64_t max_bytes; /* of all regions */
    const char *prefix; /* only objects with this prefix may be registered; "": any */
};

/* 0 or AS_EIO. */
int as_shm_new(struct as_shm **ret_t, const struct as_shm_conf *conf);
void as_shm_free(struct as_shm *t); /* when no other thread uses it */

/* For all functions below: `user` is the client's user (io/socket/peer.h). They return 0, or an
 * error with one line in `why` (`cap` bytes, with a NUL) that names the region. */

/* `key` names the object. AS_EEXISTS: the region's name is in use; AS_ENOTFOUND: no such object;
 * AS_EDENIED: the server or the user may not read and write it, or its prefix is not permitted;
 * AS_EINVALID: bad name or key, no bytes, or a range beyond the object's end; AS_EFULL: over a
 * limit of conf; AS_EIO: it cannot be opened. */
int as_shm_register(struct as_shm *t, uid_t user, struct as_str name, struct as_str key,
                    uint64_t offset, uint64_t size, char *why, size_t cap);
/* Removes one region of the user, or all of them when the name is empty. Reads and writes that are
 * under way still finish. Returns how many were removed. */
uint32_t as_shm_unregister(struct as_shm *t, uid_t user, struct as_str name);
/* Reads n bytes from `offset` of the region on. AS_ENOTFOUND: no such region; AS_EINVALID: the
 * range is beyond its end, or the object has become smaller; AS_EIO. */
int as_shm_read(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset, uint8_t *out,
                size_t n, char *why, size_t cap);
int as_shm_write(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset,
                 const uint8_t *p, size_t n, char *why, size_t cap);
/* Makes the checks of as_shm_read, without reading. */
int as_shm_check(struct as_shm *t, uid_t user, struct as_str name, uint64_t offset, uint64_t n,
                 char *why, size_t cap);

/* Calls `fn` for the user's region of that name, or for all of the user's when it is empty. `fn`
 * must not call functions of the table; its strings are valid until it returns. Returns how many
 * there were. */
uint32_t as_shm_each(struct as_shm *t, uid_t user, struct as_str name,
                     void (*fn)(void *arg, struct as_str name, struct as_str key, uint64_t offset,
                                uint64_t size),
                     void *arg);

#endif
