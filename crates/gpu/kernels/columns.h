// The other operand of products: columns of 32-number blocks, rounded to whole numbers from -127 to 127.
#pragma once
#include "target.h"

// What a block's codes are multiplied by, and the sums of its first and last 16 codes.
struct Step {
    float scale;
    i16 sums[2];
};

// The scale of a block and what its numbers are multiplied by to be rounded: none for zeros, and NaN where one is not finite.
DEVICE void step_of(float largest, float& scale, float& inverse) {
    scale = largest / 127.0f;
    inverse = 127.0f / largest;
    if (largest < 1e-30f) scale = inverse = 0;
    if (!(largest <= 3.402823466e38f)) { scale = __builtin_nanf(""); inverse = 0; }
}

// Rounds the four numbers of each of the eight lanes that have a block; `block` counts from the first of all columns.
DEVICE void round_block(f32x4 x, u64 block, u32* codes, Step* steps) {
    u32 part = lane() % 8;
    float largest = 0;
    bool strange = false;
    for (u32 i = 0; i < 4; i++) {
        largest = __builtin_fmaxf(largest, __builtin_fabsf(x[i]));
        strange |= !(__builtin_fabsf(x[i]) <= 3.402823466e38f);
    }
    largest = largest_over<8>(strange ? __builtin_inff() : largest);
    float scale, inverse;
    step_of(largest, scale, inverse);
    u32 packed = 0;
    i32 sum = 0;
    for (u32 i = 0; i < 4; i++) {
        i32 code = inverse == 0 ? 0 : (i32)__builtin_rintf(x[i] * inverse);
        sum += code;
        packed |= (code & 255) << (8 * i);
    }
    codes[block * 8 + part] = packed;
    float half = sum_over<4>((float)sum), other = exchanged<4>(half);
    if (part == 0) {
        Step step;
        step.scale = scale;
        step.sums[0] = (i16)half;
        step.sums[1] = (i16)other;
        steps[block] = step;
    }
}
