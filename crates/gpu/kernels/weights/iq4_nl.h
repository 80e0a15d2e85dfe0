// IQ4_NL: 4 bits that name uneven levels; head: d.
#pragma once
#include "unit.h"

struct Weight : Scaled<Levels<Uneven>, 32> {};
