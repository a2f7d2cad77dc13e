#include "base/id.h"

#include <stdio.h>

struct as_str as_id_make(struct as_id *id, struct as_str application, struct as_str name)
{
    id->s = (struct as_str){id->text, application.n + 1 + name.n};
    if (application.n > AS_ID_MAX || name.n > AS_ID_MAX || id->s.n > AS_ID_MAX)
        id->s.n = 0;
    else
        snprintf(id->text, sizeof(id->text), "%.*s#%.*s", AS_STR_FMT(application),
                 AS_STR_FMT(name));
    id->text[id->s.n] = 0;
    return id->s;
}

struct as_str as_id_resolve(struct as_id *id, struct as_str application, struct as_str name)
{
    const char *mark = name.n ? memchr(name.p, '/', name.n) : NULL;

    if (!mark && name.n)
        mark = memchr(name.p, '#', name.n);
    if (!mark)
        return as_id_make(id, application, name);
    return as_id_make(id, (struct as_str){name.p, (size_t)(mark - name.p)},
                      (struct as_str){mark + 1, name.n - (size_t)(mark + 1 - name.p)});
}
