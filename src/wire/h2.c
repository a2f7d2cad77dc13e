#include "wire/h2.h"
