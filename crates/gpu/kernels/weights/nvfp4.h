// NVFP4: E2M1 doubled; head: four scales in E4M3, the code 127 being zero.
#pragma once
#include "unit.h"

struct Weight : Levels<E2M1> {
    static constexpr u32 BLOCK = 64, HEAD = 4;
    static constexpr bool HALVES = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        for (u32 i = 0; i < 2; i++) {
            u32 b = head[2 * u + i], exponent = b >> 3 & 15, mantissa = b & 7;
            float normal = (1.0f + (float)mantissa * 0.125f) * bits_as<float>((exponent + 119) << 23);
            w.scale[i] = b == 127 ? 0 : exponent ? normal : (float)mantissa * (1.0f / 1024);
        }
    }
};
