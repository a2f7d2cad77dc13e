#include "link/worker.h"
