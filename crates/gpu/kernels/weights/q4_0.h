// Q4_0: 4 bits around 8; head: d.
#pragma once
#include "unit.h"

struct Weight : Scaled<Bits<4, 8>, 32> {};
