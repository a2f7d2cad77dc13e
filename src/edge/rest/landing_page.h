/* edge/rest/landing_page.h — what a newcomer looks for on the clients' port, and where it is
 * instead.
 *
 * GET and HEAD of /, /docs, /metrics and /v2/models name what there is, with links: JSON, or a page
 * for who prefers text/html (a browser). Asked only for paths that nothing else answers, so that
 * they yield to any route. Thread: the loop's.
 */
#ifndef AS_EDGE_LANDING_PAGE_H
#define AS_EDGE_LANDING_PAGE_H

#include "edge/rest/rest.h"

#define AS_LANDING_PAGE_MODELS 20u /* linked by name; of more the number is said */

/* True: answered. `path` is without its query. */
bool as_landing_page_answer(struct as_exchange *x, struct as_str path);

#endif
