// Mixtures of experts: who is asked, and what they say put together.
#include "functions.h"

constexpr u32 THREADS = 128, MOST_EXPERTS = 1024, MOST_GROUPS = 64;
constexpr float NEVER = -3.0e38f;

enum : u32 { BY_SOFTMAX, BY_SIGMOID, BY_SPARSE_MIXER };
constexpr u32 NORMALIZED = 1, BIASED = 2, FACTORS = 4;

// The place of the largest of `count` numbers in LDS, of equals the first, in every lane of a wave.
DEVICE u32 place_of_largest(const float* numbers, u32 count, float& most) {
    float best = NEVER;
    u32 place = 0xffffffff;
    for (u32 i = lane(); i < count; i += WAVE)
        if (numbers[i] > best) { best = numbers[i]; place = i; }
    most = largest_over(best);
    return lowest_over(best == most ? place : 0xffffffff);
}

// The `top_k` experts of a token and their shares (`Route` in crates/plan): a wave has a token, at most 1024 experts.
// With groups > 0 only those of the chosen_groups best runs, each worth its `best` highest scores.
KERNEL(WAVE) void route(const float* logits, const float* bias, const float* factors, u32* chosen, float* shares, u32 experts, u32 top_k, u32 score, u32 flags, u32 groups, u32 chosen_groups, u32 best, u32 nothing, float scale, float jitter) {
    SHARED float scores[MOST_EXPERTS], wanted[MOST_EXPERTS], worth[MOST_GROUPS], work[MOST_EXPERTS];
    u64 t = group_x();
    const float* from = logits + t * experts;
    float most = NEVER, sum = 0;
    for (u32 i = lane(); i < experts; i += WAVE) most = __builtin_fmaxf(most, from[i]);
    most = largest_over(most);
    if (score == BY_SPARSE_MIXER) {
        // One after the other: each time the softmax over those near enough to the best of what is left.
        for (u32 i = lane(); i < experts; i += WAVE) wanted[i] = from[i];
        wave_fence();
        for (u32 k = 0; k < top_k; k++) {
            u32 expert = place_of_largest(wanted, experts, most);
            sum = 0;
            for (u32 i = lane(); i < experts; i += WAVE) {
                float l = wanted[i];
                if (l > NEVER && (most - l) / __builtin_fmaxf(__builtin_fabsf(l), most) <= 2 * jitter) sum += exponential(l - most);
            }
            sum = sum_over(sum);
            wave_fence();
            if (lane() == 0) {
                chosen[t * top_k + k] = expert;
                shares[t * top_k + k] = scale / sum;
                wanted[expert] = NEVER;
            }
            wave_fence();
        }
        return;
    }
    for (u32 i = lane(); i < experts; i += WAVE) {
        float s = score == BY_SOFTMAX ? exponential(from[i] - most) : sigmoid(from[i]);
        scores[i] = s;
        sum += s;
    }
    sum = score == BY_SOFTMAX ? 1 / sum_over(sum) : 1;
    for (u32 i = lane(); i < experts; i += WAVE) {
        scores[i] *= sum;
        wanted[i] = scores[i] + (flags & BIASED ? bias[i] : 0);
        work[i] = wanted[i];
    }
    wave_fence();
    if (groups > 0) {
        u32 run = experts / groups;
        // A lane has a run: its `best` highest, which are few.
        for (u32 g = lane(); g < groups; g += WAVE) {
            float value = 0;
            for (u32 b = 0; b < best; b++) {
                float top = NEVER;
                u32 at = 0;
                for (u32 i = 0; i < run; i++)
                    if (work[g * run + i] > top) { top = work[g * run + i]; at = i; }
                work[g * run + at] = NEVER;
                value += top;
            }
            worth[g] = value;
        }
        wave_fence();
        for (u32 k = 0; k < chosen_groups; k++) {
            float w;
            u32 g = place_of_largest(worth, groups, w);
            wave_fence();
            if (lane() == 0) worth[g] = NEVER;
            wave_fence();
        }
        for (u32 i = lane(); i < experts; i += WAVE)
            if (worth[i / run] > NEVER) wanted[i] = NEVER;
        wave_fence();
    }
    float total = 0;
    for (u32 k = 0; k < top_k; k++) {
        float w;
        u32 expert = place_of_largest(wanted, experts, w);
        total += scores[expert];
        wave_fence();
        if (lane() == 0) {
            chosen[t * top_k + k] = expert;
            work[k] = scores[expert];
            wanted[expert] = NEVER;
        }
        wave_fence();
    }
    total = flags & NORMALIZED ? total + 1e-20f : 1;
    for (u32 k = lane(); k < top_k; k += WAVE) {
        u32 expert = chosen[t * top_k + k];
        float share = work[k] / total * scale * (flags & FACTORS ? factors[expert] : 1);
        shares[t * top_k + k] = expert + nothing < experts ? share : 0;
    }
}

// Puts `count` choices into the order of their experts, and cuts them into tiles of at most TILE of one expert for `matmul_experts`.
// Choices of experts without matrices, from `experts` on, are left out. With `every` a token asks each of them, in order, and `chosen` is
// not read. One workgroup.
constexpr u32 TILE = 64, GROUP_THREADS = 256;
KERNEL(GROUP_THREADS) void group(const u32* chosen, u32* order, u32* tiles, u32 count, u32 experts, u32 every) {
    SHARED u32 counts[MOST_EXPERTS], starts[MOST_EXPERTS], tile_starts[MOST_EXPERTS];
    auto of = [&](u32 i) __attribute__((always_inline)) { return every ? i % experts : chosen[i]; };
    for (u32 e = thread(); e < experts; e += GROUP_THREADS) counts[e] = 0;
    barrier();
    for (u32 i = thread(); i < count; i += GROUP_THREADS)
        if (of(i) < experts) add_in_group(counts + of(i), 1);
    barrier();
    if (thread() == 0) {
        u32 start = 0, tile = 0;
        for (u32 e = 0; e < experts; e++) {
            starts[e] = start;
            tile_starts[e] = tile;
            start += counts[e];
            tile += (counts[e] + TILE - 1) / TILE;
        }
        tiles[0] = tile;
    }
    barrier();
    for (u32 e = thread(); e < experts; e += GROUP_THREADS)
        for (u32 done = 0, t = tile_starts[e]; done < counts[e]; done += TILE, t++) {
            tiles[1 + 3 * t] = e;
            tiles[2 + 3 * t] = starts[e] + done;
            tiles[3 + 3 * t] = smaller(counts[e] - done, TILE);
        }
    barrier();
    for (u32 i = thread(); i < count; i += GROUP_THREADS)
        if (of(i) < experts) order[add_in_group(starts + of(i), 1)] = i;
}

// y = (residual +) sum over a token's choices of share * x[choice], in their order. An expert from `experts` on gives back `given`.
constexpr u32 ADDED = 1, SHARED_OUT = 2, IDENTITIES = 4;
KERNEL(THREADS) void combine(const float* x, const u32* chosen, const float* shares, const float* given, const float* residual, float* y, u32 width, u32 choices, u32 experts, u32 flags) {
    u64 t = group_x();
    u32 i = group_y() * THREADS + thread();
    if (i >= width) return;
    float sum = 0;
    for (u32 k = 0; k < choices; k++) {
        u64 pair = t * choices + k;
        bool none = flags & IDENTITIES && chosen[pair] >= experts;
        float share = flags & SHARED_OUT || none ? shares[pair] : 1;
        sum = __builtin_fmaf(share, none ? given[t * width + i] : x[pair * width + i], sum);
    }
    y[t * width + i] = flags & ADDED ? residual[t * width + i] + sum : sum;
}
