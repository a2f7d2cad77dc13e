#include "wire/oip.h"
