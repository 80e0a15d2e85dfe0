// As CODES_32 with an offset.
#pragma once
#include "unit.h"

struct Weight : Bytes {
    static constexpr u32 BLOCK = 32, HEAD = 8;
    static constexpr bool OFFSETS = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        const float* f = (const float*)head;
        w.scale[0] = f[0];
        w.offset[0] = f[1];
    }
};
