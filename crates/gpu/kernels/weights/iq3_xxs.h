// IQ3_XXS: points of 256 with signs; lo: eight numbers; hi: four times 7 signs and a 4-bit scale; head: d.
#pragma once
#include "grid_iq3_xxs.h"
#include "unit.h"

struct Weight : Plain {
    static constexpr u32 BLOCK = 256, LO = 8, HI = 4, HEAD = 2;
    static constexpr bool SIGNED = true;
    DEVICE void codes(u32* q, const u8* lo, const u8* hi, const u8* head, u32 u) {
        u32x2 w = *(const u32x2*)lo;
        u32 all = *(const u32*)hi;
        for (u32 p = 0; p < 8; p++) q[p] = with_signs(GRID[w[p / 4] >> (p % 4 * 8) & 255], even_signs(all >> (p / 2 * 7)) >> (p % 2 * 4));
    }
    DEVICE void scales(Unit& w, const u8* lo, const u8* hi, const u8* head, u32 u) {
        w.scale[0] = half_at(head) * (0.5f + (float)(*(const u32*)hi >> 28)) * 0.5f;
    }
};
