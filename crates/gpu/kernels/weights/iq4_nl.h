// IQ4_NL: 4 bits that name uneven levels; head: d.
#pragma once
#include "unit.h"

struct Weight : Levels<Weight> {
    static constexpr u32 BLOCK = 32, HEAD = 2, LEVELS[4] = {0xbfad9881, 0xf6eaddcf, 0x26190d01, 0x71594535};
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        w.scale[0] = half_at(head);
    }
};
