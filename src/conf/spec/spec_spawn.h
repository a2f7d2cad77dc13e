/* conf/spec/spec_spawn.h — turns a deployment's keys into the environment, folder, CPUs and memory
 * of a replica's process, and allocates GPUs and CPUs to replicas. Pure.
 */
#ifndef AS_CONF_SPEC_SPAWN_H
#define AS_CONF_SPEC_SPAWN_H

#include "conf/spec/spec.h"

/* --- devices, which are allocated as a whole or in parts --- */

#define AS_SPEC_DEVICES_MAX 1024u

/* The GPUs or the CPUs of this machine, and how much of each is in use. */
struct as_spec_devices {
    uint32_t n;
    uint16_t id[AS_SPEC_DEVICES_MAX];   /* its number in the system */
    uint16_t used[AS_SPEC_DEVICES_MAX]; /* thousandths */
};

/* Reads a list such as "0-3,8" (of sched_getaffinity, of CUDA_VISIBLE_DEVICES). 0; AS_EINVALID. */
int as_spec_devices_init(struct as_spec_devices *ret_d, const char *list);
/* Allocates a part of a device (below 1000 thousandths), on the fullest one that has room, or whole
 * devices, the first free ones. Appends their ids to `ret_list`, separated by commas. 0; AS_EFULL:
 * not so much is free, and nothing was allocated. */
int as_spec_devices_allocate(struct as_spec_devices *d, int64_t thousandths,
                             struct as_buf *ret_list);
/* claim: allocates the devices of that list, as before a restart of the controller. release: frees
 * an allocation by its list. 0; AS_EINVALID: the list does not fit `thousandths`, or claims more
 * than is free, or frees more than is in use; nothing is changed. */
int as_spec_devices_claim(struct as_spec_devices *d, int64_t thousandths, const char *list);
int as_spec_devices_release(struct as_spec_devices *d, int64_t thousandths, const char *list);

/* --- the process --- */

struct as_spec_spawn {
    const char **env; /* "NAME=value", NULL-terminated */
    const char *dir;  /* or NULL */
    const char *cpus; /* a list as in struct as_proc_spec, or NULL */
    uint64_t memory;  /* bytes; 0: no limit */
    char *owned;      /* holds the lines of env that are not the user's */
};

/* gpus: the list that was allocated for num_gpus, "" for none; NULL: num_gpus is not set. cpus: the
 * list that was allocated for `cpu_affinity: auto`, else NULL. threads: of numerical libraries,
 * where num_cpus is not set; 0: theirs. A variable in the user's env is never replaced. The result
 * points into both objects and both lists, which must outlive it. */
void as_spec_spawn_init(struct as_spec_spawn *ret_s, const struct as_spec_object *app,
                        const struct as_spec_object *deployment, const char *gpus, const char *cpus,
                        uint32_t threads);
void as_spec_spawn_fini(struct as_spec_spawn *s);

#endif
