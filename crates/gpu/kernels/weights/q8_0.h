// Q8_0: 8 bits; head: d.
#pragma once
#include "unit.h"

struct Weight : Scaled<Bytes, 32> {};
