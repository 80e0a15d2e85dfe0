// Q5_0: 5 bits around 16; head: d.
#pragma once
#include "unit.h"

struct Weight : Scaled<Bits<5, 16>, 32> {};
