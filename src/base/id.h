/* base/id.h — ids of deployments, "APPLICATION#NAME", and of replicas, "APPLICATION#NAME-NUMBER".
 *
 * A deployment is (application, name): two applications may have deployments of one name. Inside
 * the processes, in their messages and on the link, the id is one text. `#` is in neither part. A
 * text without `#` is a name of the application AS_ID_DEFAULT, as programs and workers say it that
 * know no applications. Pure.
 */
#ifndef AS_BASE_ID_H
#define AS_BASE_ID_H

#include "base/str.h"

#define AS_ID_DEFAULT         "default"
#define AS_ID_APPLICATION_MAX 127u /* bytes; with a deployment's name an id fits into a HELLO */
#define AS_ID_NAME_MAX        128u
#define AS_ID_MAX             (AS_ID_APPLICATION_MAX + 1 + AS_ID_NAME_MAX)

static inline bool as_id_is_full(struct as_str id)
{
    return id.n && memchr(id.p, '#', id.n);
}

static inline struct as_str as_id_application(struct as_str id)
{
    const char *mark = id.n ? memchr(id.p, '#', id.n) : NULL;

    return mark ? (struct as_str){id.p, (size_t)(mark - id.p)} : AS_STR(AS_ID_DEFAULT);
}

/* The deployment's or replica's own name. Of an id with a NUL at its end, the name has it, too. */
static inline struct as_str as_id_name(struct as_str id)
{
    const char *mark = id.n ? memchr(id.p, '#', id.n) : NULL;
    size_t n = mark ? (size_t)(mark + 1 - id.p) : 0;

    return (struct as_str){id.p + n, id.n - n};
}

/* As people see it where it stands alone (logs, output): the name, or the id of another application
 * than AS_ID_DEFAULT. Part of `id`, to its end. */
static inline struct as_str as_id_shown(struct as_str id)
{
    return as_str_eq(as_id_application(id), AS_STR(AS_ID_DEFAULT)) ? as_id_name(id) : id;
}

static inline const char *as_id_shown_z(const char *id)
{
    return as_id_shown(as_str_of(id)).p;
}

/* The id is (application, name). */
static inline bool as_id_is(struct as_str id, struct as_str application, struct as_str name)
{
    return as_str_eq(as_id_application(id), application) && as_str_eq(as_id_name(id), name);
}

/* The deployment whose one replica, a policy process, chooses for the deployment NAME (router,
 * autoscaling policy): NAME.policy. */
#define AS_ID_POLICY ".policy"

/* The id or name of the deployment for which that one chooses, a part of it; empty: it is no policy
 * process's. */
static inline struct as_str as_id_policy_base(struct as_str id)
{
    struct as_str name = as_id_name(id), end = AS_STR(AS_ID_POLICY);

    if (name.n <= end.n || memcmp(name.p + name.n - end.n, end.p, end.n) != 0)
        return AS_STR("");
    return (struct as_str){id.p, id.n - end.n};
}

struct as_id { /* a text that is made; `s` points into it */
    char text[AS_ID_MAX + 1];
    struct as_str s;
};

/* The id in *id, and its text; a name that is too long gives an empty one, which is no id. */
struct as_str as_id_make(struct as_id *id, struct as_str application, struct as_str name);

/* What `name` means when it is said in `application`: "NAME" is of the same application,
 * "APPLICATION/NAME" and "APPLICATION#NAME" of another. */
struct as_str as_id_resolve(struct as_id *id, struct as_str application, struct as_str name);

#endif
