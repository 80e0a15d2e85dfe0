// Q5_0: 5 bits around 16; head: d.
#pragma once
#include "unit.h"

struct Weight : Bits<5, 16> {
    static constexpr u32 BLOCK = 32, HEAD = 2;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        w.scale[0] = half_at(head);
    }
};
