// Any type that splits into codes in groups of 32 or more: 8 bits; head: a scale in f32.
#pragma once
#include "unit.h"

struct Weight : Bytes {
    static constexpr u32 BLOCK = 32, HEAD = 4;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        const float* f = (const float*)head;
        w.scale[0] = f[0];
    }
};
