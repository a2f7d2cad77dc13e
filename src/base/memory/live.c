#include "base/memory/live.h"

atomic_size_t as_live_count;
