// Scores of keys, and what attention is made with.
#pragma once
#include "target.h"

constexpr float NONE = -3.0e38f;

struct Shape {
    u32 heads, kv_heads, key, value, page_tokens, most_pages;
    float scale, softcap;
};

// The score of a key that is `apart` tokens away; `slope` is what each of them costs.
DEVICE float scored(float dot, const Shape& s, float slope, float apart) {
    float score = dot * s.scale;
    if (s.softcap != 0) {
        float e = exponential(-2.0f * __builtin_fabsf(score / s.softcap));
        score = __builtin_copysignf(s.softcap * (1.0f - e) / (1.0f + e), score);
    }
    return __builtin_fmaf(-slope, __builtin_fabsf(apart), score);
}

// What is done at the end, and what takes part.
constexpr u32 JOINED = 1;  // the workgroup that completes a token's heads joins its parts, and writes `out`
constexpr u32 ROUNDED = 2; // `out` is rounded to columns as well; values are multiples of 32
constexpr u32 SINKS = 4;   // a score for each head that takes part in the softmax and carries no value
constexpr u32 SLOPES = 8;  // linear biases: a slope for each head

// Weights of a query's 16 keys as the operand of the next product: of its scores, of even keys in a lane's half 0 and odd ones in half 1. Adds
// the lane's own to `total`.
DEVICE f16x16 weights_of(const float* scores, float most, float& total) {
    u32 words[4], others[4];
    for (u32 i = 0; i < 4; i++) {
        f16x2 pair;
        for (u32 j = 0; j < 2; j++) {
            float weight = scores[2 * i + j] > NONE ? exponential(scores[2 * i + j] - most) : 0;
            total += weight;
            pair[j] = (f16)weight;
        }
        words[i] = bits_as<u32>(pair);
        others[i] = exchanged<16>(words[i]);
    }
    u32x8 weights;
    for (u32 i = 0; i < 4; i++) {
        u32 even = lane() < 16 ? words[i] : others[i], odd = lane() < 16 ? others[i] : words[i];
        weights[2 * i] = (even & 0xffff) | odd << 16;
        weights[2 * i + 1] = even >> 16 | (odd & 0xffff0000);
    }
    return bits_as<f16x16>(weights);
}
