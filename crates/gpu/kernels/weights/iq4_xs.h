// IQ4_XS: levels of IQ4_NL; head: d, the high 2 bits of eight scales, their low 4 bits.
#pragma once
#include "unit.h"

struct Weight : Levels<Uneven> {
    static constexpr u32 BLOCK = 256, HEAD = 8;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        u32 low = head[4 + u / 2] >> (u % 2 * 4) & 15, high = read16(head + 2) >> (2 * u) & 3;
        w.scale[0] = half_at(head) * (float)((i32)(low | high << 4) - 32);
    }
};
