// Q2_0: 2 bits around 1; head: d.
#pragma once
#include "unit.h"

struct Weight : Scaled<Bits<2, 1>, 64> {};
