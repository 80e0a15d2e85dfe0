// Q1_0: signs; head: d.
#pragma once
#include "unit.h"

struct Weight : Scaled<Bits<1, 1, 2>, 128> {};
