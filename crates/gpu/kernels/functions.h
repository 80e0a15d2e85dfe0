// Functions of one number.
#pragma once
#include "target.h"

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
    float log = e < 1e-3f ? e * (1.0f - 0.5f * e) : logarithm_2(1.0f + e) * 0.69314718f;
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

// What a gate does to what it gates (`Gating` in crates/plan): f(min(gate, limit)) * (clamp(up, -limit, limit) + offset); no limit where it is 0.
DEVICE float gated_by(u32 function, float limit, float offset, float gate, float up) {
    if (limit > 0) {
        gate = __builtin_fminf(gate, limit);
        up = __builtin_fmaxf(__builtin_fminf(up, limit), -limit);
    }
    return apply(function, gate) * (up + offset);
}

// e^x - 1, near 0 by its series, where the difference cancels.
DEVICE float exponential_less_one(float x) {
    if (__builtin_fabsf(x) > 0.03125f) return exponential(x) - 1.0f;
    return x * (1.0f + x * (0.5f + x * (0.16666667f + x * 0.041666668f)));
}
