// Rotary positions, and appending keys and values to their pages.
#include "target.h"

constexpr u32 THREADS = 128;

// Sine and cosine of an angle in radians: reduced to one turn in two steps, as angles reach far beyond what one f32 factor can.
DEVICE void turn(float angle, float& sine, float& cosine) {
    float turns = __builtin_rintf(angle * 0.15915494f);
    float rest = __builtin_fmaf(-turns, 6.28318548f, angle);
    rest = __builtin_fmaf(-turns, -1.74845553e-7f, rest) * 0.15915494f;
    sine = sine_of_turns(rest);
    cosine = cosine_of_turns(rest);
}

// Turns pair i of each head of row t by positions[t] * frequencies[i], and multiplies it by `scale`: pairs (i, i + pairs), or with
// `neighbours` (2 i, 2 i + 1). What follows the pairs passes unchanged. y may be x. A workgroup has a row.
KERNEL(THREADS) void rope(const float* x, const u32* positions, const float* frequencies, float* y, u32 width, u32 head, u32 pairs, u32 neighbours, float scale) {
    u64 row = (u64)group_x() * width;
    float position = (float)(i32)positions[group_x()];
    for (u32 i = thread(); i < width / head * pairs; i += THREADS) {
        u32 pair = i % pairs;
        u64 start = row + i / pairs * head;
        u64 a = start + (neighbours ? 2 * pair : pair), b = start + (neighbours ? 2 * pair + 1 : pair + pairs);
        float sine, cosine;
        turn(position * frequencies[pair], sine, cosine);
        float p = x[a], q = x[b];
        y[a] = (p * cosine - q * sine) * scale;
        y[b] = (p * sine + q * cosine) * scale;
    }
    for (u32 i = thread(); i < width / head * (head - 2 * pairs); i += THREADS) {
        u64 at = row + i / (head - 2 * pairs) * head + 2 * pairs + i % (head - 2 * pairs);
        y[at] = x[at];
    }
}

// Writes row t of x, `heads` runs of `head` numbers, to its place in a cache of pages [page][head][token of the page][number] in f16.
// pages[spans[t] * most_pages + n] is the page with the tokens from n * page_tokens on.
KERNEL(THREADS) void append(const float* x, const u32* positions, const u32* spans, const u32* pages, f16* cache, u32 heads, u32 head, u32 page_tokens, u32 most_pages) {
    u32 t = group_x(), position = positions[t];
    u64 page = pages[spans[t] * most_pages + position / page_tokens];
    for (u32 i = thread(); i < heads * head; i += THREADS)
        cache[((page * heads + i / head) * page_tokens + position % page_tokens) * head + i % head] = (f16)x[(u64)t * heads * head + i];
}
