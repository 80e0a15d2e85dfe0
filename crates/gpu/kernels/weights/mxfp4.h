// MXFP4: E2M1 doubled; head: the exponent of the scale.
#pragma once
#include "unit.h"

struct Weight : Levels<E2M1> {
    static constexpr u32 BLOCK = 32, HEAD = 1;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        u32 e = head[0];
        w.scale[0] = bits_as<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
};
