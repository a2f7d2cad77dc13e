#include "core/request.h"
