// Q1_0: signs; head: d.
#pragma once
#include "unit.h"

struct Weight : Bits<1, 1, 2> {
    static constexpr u32 BLOCK = 128, HEAD = 2;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        w.scale[0] = half_at(head);
    }
};
