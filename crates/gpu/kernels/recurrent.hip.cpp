// Layers with a state of fixed size: one packet for a step, for several sequences, and for a prompt, whose state stays in registers.
//
// `sequences` has for each group_x four numbers: the first row of its new tokens, how many they are, the slot of its state, and the tokens
// before them, the state being zero where there are none. Slots lie one after the other in `states`.
#include "functions.h"

struct Sequence {
    u32 first, count, slot, before;
};
DEVICE Sequence sequence_of(const u32* sequences) {
    const u32* s = sequences + 4 * group_x();
    return Sequence{s[0], s[1], s[2], s[3]};
}

constexpr u32 THREADS = 128, WAVES = THREADS / WAVE;

// What is multiplied with a matrix S of `key` rows, of which a workgroup has 32 columns and a wave some of the rows, in registers.
// Operands of a token are in LDS, three tokens deep: one is brought while the one before is summed and the state of another is still
// written. So there is one barrier a token.
constexpr u32 DEPTH = 3;

// GatedDelta of crates/plan: S = exp(decay) S; u = beta (v - S^T k); S += k u^T; out = scale S^T q, where S^T q is the decayed S^T q plus
// (k . q) u. Key head of value head h: h / (v_heads / k_heads), or h % k_heads with TILED; with ROWS each row of S has its decay.
// group_y is a value head, group_z 32 of its columns.
constexpr u32 TILED = 1, ROWS = 2;
template <u32 KEY, u32 WAVES>
DEVICE void gated_delta(const float* q, const float* k, const float* v, const float* decay, const float* beta, const u32* sequences, float* states, float* out, u32 k_heads, u32 v_heads, u32 key, u32 value, u32 q_stride, u32 k_stride, u32 v_stride, u32 flags, float scale) {
    constexpr u32 OWN = KEY / WAVES;
    SHARED float of_q[DEPTH][KEY], of_k[DEPTH][KEY], of_decay[DEPTH][KEY], parts[2][WAVES][WAVE][2], dots[2][WAVES];
    Sequence s = sequence_of(sequences);
    u32 head = group_y(), column = group_z() * WAVE + lane(), row = wave() * OWN;
    u32 k_head = flags & TILED ? head % k_heads : head / (v_heads / k_heads);
    bool live = column < value;
    column = smaller(column, value - 1);
    float* state = states + (((u64)s.slot * v_heads + head) * key + row) * value + column;
    u32 own = row < key ? smaller(key - row, OWN) : 0;
    float sums[OWN];
#pragma unroll
    for (u32 i = 0; i < OWN; i++) sums[i] = i < own && s.before ? state[(u64)i * value] : 0;
    auto bring = [&](u32 n) __attribute__((always_inline)) {
        u64 t = s.first + n;
        for (u32 i = thread(); i < KEY; i += WAVES * WAVE) {
            bool there = i < key;
            of_q[n % DEPTH][i] = there ? q[t * q_stride + k_head * key + i] : 0;
            of_k[n % DEPTH][i] = there ? k[t * k_stride + k_head * key + i] : 0;
            of_decay[n % DEPTH][i] = there ? exponential(flags & ROWS ? decay[(t * v_heads + head) * key + i] : decay[t * v_heads + head]) : 0;
        }
    };
    bring(0);
    barrier();
    for (u32 n = 0; n < s.count; n++) {
        u64 t = s.first + n;
        const float *kn = of_k[n % DEPTH] + row, *qn = of_q[n % DEPTH] + row, *dn = of_decay[n % DEPTH] + row;
        float found = 0, read = 0;
#pragma unroll
        for (u32 i = 0; i < OWN; i++) {
            sums[i] *= dn[i];
            found = __builtin_fmaf(sums[i], kn[i], found);
            read = __builtin_fmaf(sums[i], qn[i], read);
        }
        float dot = 0;
        for (u32 i = lane(); i < OWN; i += WAVE) dot = __builtin_fmaf(kn[i], qn[i], dot);
        dot = sum_over(dot);
        parts[n % 2][wave()][lane()][0] = found;
        parts[n % 2][wave()][lane()][1] = read;
        if (lane() == 0) dots[n % 2][wave()] = dot;
        float of_v = v[t * v_stride + head * value + column], strength = beta[t * v_heads + head];
        if (n + 1 < s.count) bring(n + 1);
        barrier();
        found = read = dot = 0;
        for (u32 w = 0; w < WAVES; w++) {
            found += parts[n % 2][w][lane()][0];
            read += parts[n % 2][w][lane()][1];
            dot += dots[n % 2][w];
        }
        float u = strength * (of_v - found);
#pragma unroll
        for (u32 i = 0; i < OWN; i++) sums[i] = __builtin_fmaf(kn[i], u, sums[i]);
        if (live && wave() == 0) out[(t * v_heads + head) * value + column] = scale * __builtin_fmaf(dot, u, read);
    }
    if (live)
        for (u32 i = 0; i < OWN; i++)
            if (i < own) state[(u64)i * value] = sums[i];
}

#define GATED_DELTA(KEY, WAVES) \
    KERNEL(WAVES * WAVE) void gated_delta_##KEY(const float* q, const float* k, const float* v, const float* decay, const float* beta, const u32* sequences, float* states, float* out, \
        u32 k_heads, u32 v_heads, u32 key, u32 value, u32 q_stride, u32 k_stride, u32 v_stride, u32 flags, float scale) { \
        gated_delta<KEY, WAVES>(q, k, v, decay, beta, sequences, states, out, k_heads, v_heads, key, value, q_stride, k_stride, v_stride, flags, scale); \
    }
GATED_DELTA(64, 4)
GATED_DELTA(128, 4)
GATED_DELTA(256, 8)

// LinearAttention of crates/plan: S = exp(decay) S + b (S^T a)^T + k v^T with a decay for each row; out = scale S^T q, of S as it was with
// BEFORE. a and b with SWAPPED. group_y is a head, group_z 32 of its columns.
constexpr u32 BEFORE = 1, SWAPPED = 2;
template <u32 KEY>
DEVICE void linear_attention(const float* q, const float* k, const float* v, const float* decay, const float* a, const float* b, const u32* sequences, float* states, float* out, u32 heads, u32 key, u32 value, u32 flags, float scale) {
    constexpr u32 OWN = KEY / WAVES;
    SHARED float of_q[DEPTH][KEY], of_k[DEPTH][KEY], of_decay[DEPTH][KEY], of_a[DEPTH][KEY], of_b[DEPTH][KEY], parts[2][WAVES][WAVE][2];
    Sequence s = sequence_of(sequences);
    u32 head = group_y(), column = group_z() * WAVE + lane(), row = wave() * OWN;
    bool live = column < value;
    column = smaller(column, value - 1);
    float* state = states + (((u64)s.slot * heads + head) * key + row) * value + column;
    u32 own = row < key ? smaller(key - row, OWN) : 0;
    float sums[OWN];
#pragma unroll
    for (u32 i = 0; i < OWN; i++) sums[i] = i < own && s.before ? state[(u64)i * value] : 0;
    auto bring = [&](u32 n) __attribute__((always_inline)) {
        for (u32 i = thread(); i < KEY; i += THREADS) {
            bool there = i < key;
            u64 at = ((u64)(s.first + n) * heads + head) * key + i;
            of_q[n % DEPTH][i] = there ? q[at] : 0;
            of_k[n % DEPTH][i] = there ? k[at] : 0;
            of_decay[n % DEPTH][i] = there ? exponential(decay[at]) : 0;
            of_a[n % DEPTH][i] = there && flags & SWAPPED ? a[at] : 0;
            of_b[n % DEPTH][i] = there && flags & SWAPPED ? b[at] : 0;
        }
    };
    bring(0);
    barrier();
    for (u32 n = 0; n < s.count; n++) {
        u64 at = ((u64)(s.first + n) * heads + head) * value + column;
        const float *kn = of_k[n % DEPTH] + row, *qn = of_q[n % DEPTH] + row, *dn = of_decay[n % DEPTH] + row, *an = of_a[n % DEPTH] + row, *bn = of_b[n % DEPTH] + row;
        float found = 0, read = 0;
#pragma unroll
        for (u32 i = 0; i < OWN; i++) {
            found = __builtin_fmaf(sums[i], an[i], found);
            read = __builtin_fmaf(flags & BEFORE ? sums[i] : sums[i] * dn[i], qn[i], read);
        }
        parts[n % 2][wave()][lane()][0] = found;
        parts[n % 2][wave()][lane()][1] = read;
        float of_v = v[at];
        if (n + 1 < s.count) bring(n + 1);
        barrier();
        found = read = 0;
        for (u32 w = 0; w < WAVES; w++) {
            found += parts[n % 2][w][lane()][0];
            read += parts[n % 2][w][lane()][1];
        }
        float kq = 0, bq = 0;
        for (u32 i = lane(); i < KEY; i += WAVE) {
            kq = __builtin_fmaf(of_k[n % DEPTH][i], of_q[n % DEPTH][i], kq);
            bq = __builtin_fmaf(of_b[n % DEPTH][i], of_q[n % DEPTH][i], bq);
        }
#pragma unroll
        for (u32 i = 0; i < OWN; i++) sums[i] = __builtin_fmaf(kn[i], of_v, __builtin_fmaf(bn[i], found, sums[i] * dn[i]));
        kq = sum_over(kq);
        bq = sum_over(bq);
        if (!(flags & BEFORE)) read = __builtin_fmaf(kq, of_v, __builtin_fmaf(bq, found, read));
        if (live && wave() == 0) out[at] = scale * read;
    }
    if (live)
        for (u32 i = 0; i < OWN; i++)
            if (i < own) state[(u64)i * value] = sums[i];
}

#define LINEAR_ATTENTION(KEY) \
    KERNEL(THREADS) void linear_attention_##KEY(const float* q, const float* k, const float* v, const float* decay, const float* a, const float* b, const u32* sequences, float* states, float* out, u32 heads, u32 key, u32 value, u32 flags, float scale) { \
        linear_attention<KEY>(q, k, v, decay, a, b, sequences, states, out, heads, key, value, flags, scale); \
    }
LINEAR_ATTENTION(64)
LINEAR_ATTENTION(128)

// CausalConv of crates/plan. A thread has a channel: out = f(bias + sum_j taps[c][j] x(t - (kernel - 1 - j) dilation)). The state is the
// last (kernel - 1) dilation inputs, oldest first.
constexpr u32 CONV_BIAS = 1, CONV_FUNCTION = 2;
KERNEL(THREADS) void causal_conv(const float* x, const float* taps, const float* bias, const u32* sequences, float* states, float* out, u32 channels, u32 kernel, u32 dilation, u32 x_stride, u32 flags, u32 function) {
    Sequence s = sequence_of(sequences);
    u32 c = group_y() * THREADS + thread();
    if (c >= channels) return;
    u32 past = (kernel - 1) * dilation;
    float* state = states + (u64)s.slot * past * channels + c;
    const float* from = x + (u64)s.first * x_stride + c;
    // Input n of the state followed by the new ones.
    auto input = [&](u32 n) __attribute__((always_inline)) {
        if (n >= past) return from[(u64)(n - past) * x_stride];
        return s.before ? state[(u64)n * channels] : 0.0f;
    };
    for (u32 t = 0; t < s.count; t++) {
        float sum = 0;
        for (u32 j = 0; j < kernel; j++) sum = __builtin_fmaf(taps[c * kernel + j], input(t + j * dilation), sum);
        if (flags & CONV_BIAS) sum += bias[c];
        out[(u64)(s.first + t) * channels + c] = flags & CONV_FUNCTION ? apply(function, sum) : sum;
    }
    // Each number comes from behind where it goes.
    for (u32 n = 0; n < past; n++) state[(u64)n * channels] = input(n + s.count);
}

// SelectiveScan of crates/plan. A thread has a number of a head: S = exp(step rate) S + b (step x); out = S . c + skip x, for S of `size`
// numbers, in registers with KEPT of them or more. The rate is the head's, or with RATES one for each number of S.
constexpr u32 RATES = 1, SKIP = 2;
template <u32 KEPT>
DEVICE void scan(const float* x, const float* step, const float* b, const float* c, const float* rate, const float* skip, const u32* sequences, float* states, float* out, u32 heads, u32 groups, u32 head, u32 size, u32 flags, u32 x_stride, u32 b_stride) {
    Sequence s = sequence_of(sequences);
    u32 channel = group_y() * THREADS + thread();
    if (channel >= heads * head) return;
    u32 h = channel / head, group = h / (heads / groups);
    float* state = states + ((u64)s.slot * heads + h) * size * head + channel % head;
    float of_skip = flags & SKIP ? skip[h] : 0, of_head = flags & RATES ? 0 : rate[h];
    const float* rates = rate + (u64)h * size;
    constexpr bool IN_REGISTERS = KEPT > 0;
    float sums[IN_REGISTERS ? KEPT : 1];
    if (IN_REGISTERS)
#pragma unroll
        for (u32 n = 0; n < KEPT; n++) sums[n] = n < size && s.before ? state[(u64)n * head] : 0;
    for (u32 i = 0; i < s.count; i++) {
        u64 t = s.first + i;
        float of_step = step[t * heads + h], input = x[t * x_stride + channel], sum = of_skip * input;
        const float *of_b = b + t * b_stride + group * size, *of_c = c + t * b_stride + group * size;
        float decay = exponential(of_step * of_head), given = of_step * input;
        auto next = [&](u32 n, float before) __attribute__((always_inline)) {
            float d = flags & RATES ? exponential(of_step * rates[n]) : decay;
            float after = __builtin_fmaf(d, before, of_b[n] * given);
            sum = __builtin_fmaf(after, of_c[n], sum);
            return after;
        };
        if (IN_REGISTERS) {
#pragma unroll
            for (u32 n = 0; n < KEPT; n++)
                if (n < size) sums[n] = next(n, sums[n]);
        } else
            for (u32 n = 0; n < size; n++) state[(u64)n * head] = next(n, i || s.before ? state[(u64)n * head] : 0);
        out[t * heads * head + channel] = sum;
    }
    if (IN_REGISTERS)
#pragma unroll
        for (u32 n = 0; n < KEPT; n++)
            if (n < size) state[(u64)n * head] = sums[n];
}

// `scan` takes any size and is as good for one token; the others are for prompts.
#define SCAN(NAME, KEPT) \
    KERNEL(THREADS) void NAME(const float* x, const float* step, const float* b, const float* c, const float* rate, const float* skip, const u32* sequences, float* states, float* out, u32 heads, u32 groups, u32 head, u32 size, u32 flags, u32 x_stride, u32 b_stride) { \
        scan<KEPT>(x, step, b, c, rate, skip, sequences, states, out, heads, groups, head, size, flags, x_stride, b_stride); \
    }
SCAN(scan, 0)
SCAN(scan_16, 16)
SCAN(scan_64, 64)

// RgLru of crates/plan. A thread has a channel: h = a h + sqrt(1 - a^2) x with a = exp(decay); h = x at the sequence's start.
KERNEL(THREADS) void rg_lru(const float* x, const float* decay, const u32* sequences, float* states, float* out, u32 channels) {
    Sequence s = sequence_of(sequences);
    u32 c = group_y() * THREADS + thread();
    if (c >= channels) return;
    float* state = states + (u64)s.slot * channels + c;
    float h = s.before ? *state : 0;
    for (u32 i = 0; i < s.count; i++) {
        u64 at = (u64)(s.first + i) * channels + c;
        float d = decay[at], given = __builtin_sqrtf(-exponential_less_one(2.0f * d));
        h = i || s.before ? __builtin_fmaf(exponential(d), h, given * x[at]) : x[at];
        out[at] = h;
    }
    *state = h;
}

// Wkv of crates/plan. A thread has a channel: its sum of values, its sum of weights, and the logarithm of what both are multiplied with.
KERNEL(THREADS) void wkv(const float* k, const float* v, const float* decay, const float* first, const u32* sequences, float* states, float* out, u32 channels) {
    Sequence s = sequence_of(sequences);
    u32 c = group_y() * THREADS + thread();
    if (c >= channels) return;
    float* state = states + (u64)s.slot * 3 * channels + c;
    float sum = 0, weight = 0, log = 0, of_decay = decay[c], of_first = first[c];
    if (s.before) { sum = state[0]; weight = state[channels]; log = state[2 * channels]; }
    for (u32 i = 0; i < s.count; i++) {
        u64 at = (u64)(s.first + i) * channels + c;
        float key = k[at], value = v[at];
        // Relative to the largest, as exponentials may overflow.
        auto with = [&](float past, float own, float& all, float& most) __attribute__((always_inline)) {
            most = weight == 0 ? own : __builtin_fmaxf(past, own);
            float p = weight == 0 ? 0 : exponential(past - most), o = exponential(own - most);
            all = __builtin_fmaf(p, weight, o);
            return __builtin_fmaf(p, sum, o * value);
        };
        float all, most;
        float of_token = with(log, of_first + key, all, most);
        out[at] = of_token / all;
        sum = with(log + of_decay, key, all, most);
        weight = all;
        log = most;
    }
    state[0] = sum;
    state[channels] = weight;
    state[2 * channels] = log;
}

// Lightning of crates/plan. A workgroup has a head of a sequence, a thread columns of its matrix. The state is the matrix, `dim` rows, then
// the keys, then the values of the block so far.
constexpr u32 MOST_BLOCK = 512;
KERNEL(THREADS) void lightning(const float* q, const float* k, const float* v, const float* rate, const float* queries, const float* keys, const float* inner, const u32* sequences, float* states, float* out, u32 heads, u32 dim, u32 block) {
    SHARED float scores[MOST_BLOCK];
    Sequence s = sequence_of(sequences);
    u32 h = group_y();
    float* matrix = states + ((u64)s.slot * heads + h) * (dim + 2 * block) * dim;
    float *past_k = matrix + dim * dim, *past_v = past_k + block * dim;
    if (!s.before)
        for (u32 c = thread(); c < dim; c += THREADS)
            for (u32 r = 0; r < dim; r++) matrix[r * dim + c] = 0;
    float whole = exponential(-rate[h] * (float)block);
    for (u32 t = 0; t < s.count; t++) {
        u32 i = (s.before + t) % block;
        u64 row = ((u64)(s.first + t) * heads + h) * dim;
        for (u32 c = thread(); c < dim; c += THREADS) {
            past_k[i * dim + c] = k[row + c];
            past_v[i * dim + c] = v[row + c];
        }
        group_fence();
        for (u32 j = wave(); j <= i; j += WAVES) {
            float dot = 0;
            for (u32 r = lane(); r < dim; r += WAVE) dot = __builtin_fmaf(q[row + r], past_k[j * dim + r], dot);
            dot = sum_over(dot);
            if (lane() == 0) scores[j] = inner[((u64)h * block + i) * block + j] * dot;
        }
        barrier();
        for (u32 c = thread(); c < dim; c += THREADS) {
            float before = 0, within = 0;
            for (u32 r = 0; r < dim; r++) before = __builtin_fmaf(q[row + r], matrix[r * dim + c], before);
            for (u32 j = 0; j <= i; j++) within = __builtin_fmaf(scores[j], past_v[j * dim + c], within);
            out[row + c] = __builtin_fmaf(queries[h * block + i], before, within);
            if (i + 1 != block) continue;
            for (u32 r = 0; r < dim; r++) {
                float sum = whole * matrix[r * dim + c];
                for (u32 j = 0; j < block; j++) sum = __builtin_fmaf(keys[h * block + j] * past_k[j * dim + r], past_v[j * dim + c], sum);
                matrix[r * dim + c] = sum;
            }
        }
        // The next token writes where these were read.
        group_fence();
    }
}
