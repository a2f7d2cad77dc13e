/* core/keys/glob.h — patterns of names: `*` stands for any characters, `?` for one; every other
 * character for itself. Pure.
 */
#ifndef AS_CORE_GLOB_H
#define AS_CORE_GLOB_H

#include "base/str.h"

/* Takes at most pattern.n × name.n steps. */
bool as_glob_matches(struct as_str pattern, struct as_str name);
/* Whether one of the patterns matches, which are separated by commas. */
bool as_glob_list_matches(struct as_str patterns, struct as_str name);

#endif
