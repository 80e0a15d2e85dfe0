// Q2_0: 2 bits around 1; head: d.
#pragma once
#include "unit.h"

struct Weight : Bits<2, 1> {
    static constexpr u32 BLOCK = 64, HEAD = 2;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        w.scale[0] = half_at(head);
    }
};
