// Any type that splits into codes in groups of 16: 8 bits; head: two scales in f32.
#pragma once
#include "unit.h"

struct Weight : Floats<true, false> {};
