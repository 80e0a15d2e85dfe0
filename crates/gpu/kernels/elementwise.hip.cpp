// Operations on numbers one by one.
#include "target.h"

constexpr u32 THREADS = 256;

// Functions, in the order of `Function` in crates/plan.
enum : u32 { SILU, GELU, GELU_TANH, QUICK_GELU, RELU, RELU_SQUARED, SIGMOID, SOFTPLUS, TANH, EXP, SIGNED_SQRT };

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// tanh x = (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x; near 0, where that cancels, its series.
DEVICE float hyperbolic_tangent(float x) {
    float a = __builtin_fabsf(x), s = x * x;
    if (a < 0.125f) return x * (1.0f + s * (-1.0f / 3 + s * (2.0f / 15 - s * (17.0f / 315))));
    float e = exponential(-2.0f * a);
    return __builtin_copysignf((1.0f - e) / (1.0f + e), x);
}

// The error function by Abramowitz and Stegun, 7.1.26: within 1.5e-7.
DEVICE float error_function(float x) {
    float a = __builtin_fabsf(x), t = 1.0f / (1.0f + 0.3275911f * a);
    float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return __builtin_copysignf(1.0f - p * exponential(-a * a), x);
}

// ln(1 + e^x); above 20 x itself.
DEVICE float softplus(float x) {
    float e = exponential(-__builtin_fabsf(x));
    float log = e < 1e-3f ? e * (1.0f - 0.5f * e) : __builtin_amdgcn_logf(1.0f + e) * 0.69314718f;
    return x > 20.0f ? x : __builtin_fmaxf(x, 0.0f) + log;
}

DEVICE float apply(u32 function, float x) {
    switch (function) {
        case SILU: return x * sigmoid(x);
        case GELU: return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
        case GELU_TANH: return 0.5f * x * (1.0f + hyperbolic_tangent(0.7978846f * (x + 0.044715f * x * x * x)));
        case QUICK_GELU: return x * sigmoid(1.702f * x);
        case RELU: return __builtin_fmaxf(x, 0.0f);
        case RELU_SQUARED: return __builtin_fmaxf(x, 0.0f) * __builtin_fmaxf(x, 0.0f);
        case SIGMOID: return sigmoid(x);
        case SOFTPLUS: return softplus(x);
        case TANH: return hyperbolic_tangent(x);
        case EXP: return exponential(x);
        default: {
            float root = __builtin_sqrtf(__builtin_fmaxf(__builtin_fabsf(x), 1e-6f));
            return x == 0 ? 0.0f : __builtin_copysignf(root, x);
        }
    }
}

// y = f(x).
KERNEL(THREADS) void function(const float* x, float* y, u32 count, u32 function) {
    u32 i = group_x() * THREADS + thread();
    if (i < count) y[i] = apply(function, x[i]);
}

// y = f(gate) * up.
KERNEL(THREADS) void gated(const float* gate, const float* up, float* y, u32 count, u32 function) {
    u32 i = group_x() * THREADS + thread();
    if (i < count) y[i] = apply(function, gate[i]) * up[i];
}

// y = a + b, or a * b; each number of a narrower b serves a run of a.
enum : u32 { ADD, MULTIPLY };
KERNEL(THREADS) void binary(const float* a, const float* b, float* y, u32 count, u32 a_width, u32 b_width, u32 what) {
    u32 i = group_x() * THREADS + thread();
    if (i >= count) return;
    u32 row = i / a_width, column = i % a_width;
    float other = b[row * b_width + column / (a_width / b_width)];
    y[i] = what == ADD ? a[i] + other : a[i] * other;
}

// y = scale * x.
KERNEL(THREADS) void scale(const float* x, float* y, u32 count, float factor) {
    u32 i = group_x() * THREADS + thread();
    if (i < count) y[i] = x[i] * factor;
}

// Rows of x, `width` numbers each, by their numbers: the tokens whose logits are wanted.
KERNEL(THREADS) void rows(const float* x, const u32* numbers, float* y, u32 width) {
    u64 from = (u64)numbers[group_x()] * width, to = (u64)group_x() * width;
    for (u32 i = thread(); i < width; i += THREADS) y[to + i] = x[from + i];
}

// The number of the largest of each row, the first of several.
KERNEL(THREADS) void largest(const float* x, u32* out, u32 width) {
    SHARED float values[THREADS / WAVE];
    SHARED u32 places[THREADS / WAVE];
    const float* row = x + (u64)group_x() * width;
    float best = -__builtin_inff();
    u32 place = 0xffffffff;
    for (u32 i = thread(); i < width; i += THREADS)
        if (row[i] > best || place == 0xffffffff) { best = row[i]; place = i; }
    float most = largest_over(best);
    // Of the lanes that have it the lowest place.
    u32 mine = best == most ? place : 0xffffffff;
    for (u32 step = 16; step > 0; step /= 2) mine = smaller(mine, (u32)__builtin_amdgcn_ds_bpermute((lane() ^ step) * 4, (i32)mine));
    if (lane() == 0) { values[wave()] = most; places[wave()] = mine; }
    barrier();
    if (thread() == 0) {
        for (u32 w = 1; w < THREADS / WAVE; w++)
            if (values[w] > most || (values[w] == most && places[w] < mine)) { most = values[w]; mine = places[w]; }
        out[group_x()] = mine;
    }
}
