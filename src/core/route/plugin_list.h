/* core/route/plugin_list.h — the value of --router-plugin: DEPLOYMENT=FILE, separated by commas. */
#ifndef AS_CORE_PLUGIN_LIST_H
#define AS_CORE_PLUGIN_LIST_H

#include "base/str.h"

#define AS_PLUGIN_NAME_MAX 255u

/* Takes the first entry off *list. False: the list is empty. */
bool as_plugin_list_next(struct as_str *list, struct as_str *ret_entry);
/* Splits DEPLOYMENT=FILE. False: it is none; the deployment is named as people write it, without
 * blanks, with at most AS_PLUGIN_NAME_MAX bytes. */
bool as_plugin_split(struct as_str entry, struct as_str *ret_name, struct as_str *ret_path);
/* Each entry is DEPLOYMENT=FILE, and no name comes twice; an empty list is valid. *ret_bad: the
 * first entry that is wrong. */
bool as_plugin_list_is_valid(struct as_str list, struct as_str *ret_bad);
/* Is there an entry of that name? */
bool as_plugin_list_has(struct as_str list, struct as_str name);

#endif
