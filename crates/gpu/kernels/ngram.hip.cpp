// Rows of a hashed table for the last tokens (`NgramEmbed` in crates/plan): their numbers; `embed` of the table's type then reads them.
#include "target.h"

constexpr u32 THREADS = 128, MOST_TOKENS = 8;

// `sequences` as in recurrent.hip.cpp; a workgroup has one. `heads` has for each head the tokens of its n-grams, then size and first row,
// `multipliers` one for each token, all of 64 bits. The state are the last most - 1 tokens before, the last one first, each plus one, 0
// where there is none, as floats. out[t][head] is the row.
KERNEL(THREADS) void ngram_rows(const u32* tokens, const u32* sequences, const u64* multipliers, const u64* heads, float* states, u32* out, u32 most, u32 head_count, u32 boundary) {
    const u32* s = sequences + 4 * group_x();
    u32 first = s[0], count = s[1], slot = s[2], before = s[3];
    float* state = states + (u64)slot * (most - 1);
    // The token `i` before token t of the new ones, plus one; 0 where there is none.
    auto earlier = [&](u32 t, u32 i) __attribute__((always_inline)) {
        if (t >= i) return tokens[first + t - i] + 1;
        return before && i - t <= most - 1 ? (u32)state[i - t - 1] : 0;
    };
    for (u32 n = thread(); n < count * head_count; n += THREADS) {
        u32 t = n / head_count;
        const u64* head = heads + n % head_count * 3;
        u64 hash = 0;
        bool ended = false;
        for (u32 i = 0; i < MOST_TOKENS; i++) {
            if (i >= head[0]) break;
            u32 token = earlier(t, i);
            // What is before a boundary is hidden.
            ended |= i > 0 && (token == 0 || token - 1 == boundary);
            hash ^= (u64)(ended ? boundary : token - 1) * multipliers[i];
        }
        out[(u64)(first + t) * head_count + n % head_count] = (u32)(head[2] + hash % head[1]);
    }
    u32 kept = thread() < most - 1 ? earlier(count, thread() + 1) : 0;
    group_fence();
    if (thread() < most - 1) state[thread()] = (float)kept;
}
