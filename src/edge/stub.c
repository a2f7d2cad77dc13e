#include "base/defs.h"
extern int as_edge_stub; int as_edge_stub;
