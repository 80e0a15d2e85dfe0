// Q6_0: 6 bits around 32; head: d.
#pragma once
#include "unit.h"

struct Weight : Scaled<Bits<6, 32>, 32> {};
