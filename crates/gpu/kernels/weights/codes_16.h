// Any type that splits into codes in groups of 16: 8 bits; head: two scales in f32.
#pragma once
#include "unit.h"

struct Weight : Bytes {
    static constexpr u32 BLOCK = 32, HEAD = 8;
    static constexpr bool HALVES = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        const float* f = (const float*)head;
        w.scale[0] = f[0];
        w.scale[1] = f[1];
    }
};
