// As CODES_16 with two offsets.
#pragma once
#include "unit.h"

struct Weight : Bytes {
    static constexpr u32 BLOCK = 32, HEAD = 16;
    static constexpr bool HALVES = true, OFFSETS = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        const float* f = (const float*)head;
        w.scale[0] = f[0];
        w.scale[1] = f[1];
        w.offset[0] = f[2];
        w.offset[1] = f[3];
    }
};
