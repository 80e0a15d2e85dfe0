// Q8_0: 8 bits; head: d.
#pragma once
#include "unit.h"

struct Weight : Bytes {
    static constexpr u32 BLOCK = 32, HEAD = 2;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        w.scale[0] = half_at(head);
    }
};
