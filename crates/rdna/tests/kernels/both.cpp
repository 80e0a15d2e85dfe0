// One source for gfx1151 and for the host: expressions whose results must be the same, bit by bit.
//
// On the GPU each list is a kernel (a, b, c, out, n): item i computes expression k into out[k * n + i]. On the host the program reads
// n and the operands from standard input and writes the results of the list that its argument names.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef int i32;
typedef unsigned long u64;
typedef long i64;
typedef short i16;
typedef signed char i8;
typedef _Float16 f16;

#ifdef __AMDGCN__
#define FN static __attribute__((device)) inline
#define CALL static __attribute__((device, noinline))
#else
#define FN static inline
#define CALL static __attribute__((noinline))
#endif

FN float asf(u32 x) { float f; __builtin_memcpy(&f, &x, 4); return f; }
FN double asd(u64 x) { double f; __builtin_memcpy(&f, &x, 8); return f; }
FN f16 ash(u32 x) { u16 h = (u16)x; f16 f; __builtin_memcpy(&f, &h, 2); return f; }
// Any NaN is as good as another.
FN u64 R(float x) { u32 b; __builtin_memcpy(&b, &x, 4); return x == x ? b : 0x7fc00000u; }
FN u64 R(double x) { u64 b; __builtin_memcpy(&b, &x, 8); return x == x ? b : 0x7ff8000000000000ul; }
FN u64 R(f16 x) { u16 b; __builtin_memcpy(&b, &x, 2); return x == x ? b : 0x7e00; }
FN u64 R(u32 x) { return x; }
FN u64 R(i32 x) { return (u32)x; }
FN u64 R(u64 x) { return x; }
FN u64 R(i64 x) { return (u64)x; }
FN u64 R(bool x) { return x; }

FN i32 to_int(float x) { return x != x ? 0 : x >= 2147483648.f ? 2147483647 : x <= -2147483648.f ? (i32)0x80000000 : (i32)x; }
FN u32 to_uint(float x) { return !(x > 0) ? 0 : x >= 4294967296.f ? 0xffffffffu : (u32)x; }
FN i64 to_long(double x) { return x != x ? 0 : x >= 9223372036854775808. ? 9223372036854775807L : x <= -9223372036854775808. ? (i64)(1ul << 63) : (i64)x; }
FN u32 nz(u32 x) { return x ? x : 1; }
FN u64 nz(u64 x) { return x ? x : 1; }
FN i32 quotient(i32 x, i32 y) { return y == -1 ? (i32)(0u - (u32)x) : x / (y ? y : 1); }
FN i64 quotient(i64 x, i64 y) { return y == -1 ? (i64)(0ul - (u64)x) : x / (y ? y : 1); }
FN i32 rest(i32 x, i32 y) { return y == -1 ? 0 : x % (y ? y : 1); }
FN i64 rest(i64 x, i64 y) { return y == -1 ? 0 : x % (y ? y : 1); }
FN u32 gcd(u32 x, u32 y) { while (y) { u32 t = x % y; x = y; y = t; } return x; }
FN u32 collatz(u32 x) { u32 n = 0; for (x &= 0xffff; x > 1 && n < 60; n++) x = x & 1 ? 3 * x + 1 : x / 2; return n; }
FN u32 crc(u32 x) { u32 r = ~0u; for (int i = 0; i < 32; i++) { r ^= x >> i & 1; r = r >> 1 ^ (r & 1 ? 0xedb88320u : 0); } return ~r; }
FN u32 power(u32 x, u32 n) { u32 r = 1; for (n &= 31; n; n >>= 1, x *= x) if (n & 1) r *= x; return r; }
FN u32 root(u64 x) { u64 r = 0; for (int i = 31; i >= 0; i--) { u64 t = r | 1ul << i; if (t * t <= x) r = t; } return (u32)r; }
CALL u32 called(u32 x, u32 y) { return x * 0x9e3779b1u ^ (y << 7 | y >> 25); }
CALL u64 called_wide(u64 x, u32 y, float z) { return x * y + (u64)to_uint(z); }
// Indexing that is not known beforehand goes through scratch.
FN u32 scrambled(u32 x, u32 y) {
    u32 t[16];
    for (u32 i = 0; i < 16; i++) t[i] = x * (2 * i + 1);
    for (u32 i = 0; i < 8; i++) { u32 j = y >> (4 * i) & 15; u32 s = t[j]; t[j] = t[i] + 1; t[i] = s; }
    return t[y & 15] ^ t[x & 15] ^ t[7];
}
FN u32 bytes_sorted(u32 x) {
    u8 t[4] = {(u8)x, (u8)(x >> 8), (u8)(x >> 16), (u8)(x >> 24)};
    for (int i = 0; i < 3; i++) for (int j = 0; j < 3 - i; j++) if (t[j] > t[j + 1]) { u8 s = t[j]; t[j] = t[j + 1]; t[j + 1] = s; }
    return t[0] | t[1] << 8 | t[2] << 16 | (u32)t[3] << 24;
}
FN u32 chosen(u32 x, u32 y) {
    switch (x & 7) { case 0: return y + 1; case 1: return y * 3; case 2: return ~y; case 3: return y >> 3; case 4: return y ^ 0x55555555; case 5: return y % 7; case 6: return gcd(y, x); default: return crc(y); }
}

#define INT(E) E(a + b) E(a - b) E(a * b) E(a & b) E(a | b) E(a ^ b) E(~a) E(0u - a) E(a << (b & 31)) E(a >> (b & 31)) E((i32)a >> (b & 31)) \
    E(a < b) E((i32)a < (i32)b) E(a == b) E(a < b ? c : a) E((i32)a < (i32)b ? b : c) E(a / nz(b)) E(a % nz(b)) E(quotient((i32)a, (i32)b)) \
    E(rest((i32)a, (i32)b)) E(a / 7) E(a % 10) E((i32)a / 13) E((u32)((u64)a * b >> 32)) E((u32)((i64)(i32)a * (i32)b >> 32)) E(a * b + c) \
    E((a << 3) + b) E((a & b) | c) E(a ^ b ^ c) E(__builtin_popcount(a)) E(a ? __builtin_clz(a) : 32) E(a ? __builtin_ctz(a) : 32) \
    E(a << (b & 31) | a >> ((0 - b) & 31)) E((a >> 5) & 0x3ff) E((i32)(a << 9) >> 20) E((u32)(u8)a + (u8)b) E((i32)(i8)a * (i8)b) E((i32)(i16)a - (i16)b) \
    E((u32)(u16)((u16)a * (u16)b)) E(a > b ? a : b) E((i32)a > (i32)b ? (i32)a : (i32)b) E(a - b > a ? 0u : a - b) E((i32)a < 0 ? 0 - a : a) \
    E(gcd(a & 0xffff, b & 0xffff)) E(collatz(a)) E(crc(a)) E(power(a, b)) E(scrambled(a, b)) E(bytes_sorted(a)) E(chosen(a, b)) E(called(a, b)) \
    E(called(called(a, c), b)) E((a & 0xff) * (b & 0xff) + (a >> 8 & 0xff) * (b >> 8 & 0xff)) E(__builtin_bswap32(a)) E(a > 100 && b > 100 || c > 100)

#define LONG(E) E(A + B) E(A - B) E(A * B) E(A & B) E(A ^ B) E(A << (b & 63)) E(A >> (b & 63)) E((i64)A >> (b & 63)) E(A < B) E((i64)A < (i64)B) \
    E(A == B) E(A / nz(B)) E(A % nz(B)) E(quotient((i64)A, (i64)B)) E(rest((i64)A, (i64)B)) E(A / 1000) E(__builtin_popcountl(A)) E(A ? __builtin_clzl(A) : 64) \
    E(A ? __builtin_ctzl(A) : 64) E(A < B ? C : A) E((u64)a * b + C) E((i64)(i32)a * (i32)b + (i64)C) E(root(A)) E(0ul - A) E((i64)A < 0 ? 0 - A : A) \
    E(called_wide(A, b, asf(c))) E((u32)(A >> 17)) E((A << 32) | (B >> 32)) E((u64)((unsigned __int128)A * B >> 64)) E(A + B < A)

#define FLOAT(E) E(x + y) E(x - y) E(x * y) E(x / y) E(1.f / x) E(__builtin_sqrtf(x)) E(__builtin_fmaf(x, y, z)) E(x * y + z) E(-x) E(__builtin_fabsf(x)) \
    E(__builtin_copysignf(x, y)) E(x < y) E(x <= y) E(x == y) E(x != y) E(!(x < y)) E(!(x >= y)) E(x < y ? x : z) E(__builtin_floorf(x)) E(__builtin_ceilf(x)) \
    E(__builtin_truncf(x)) E(__builtin_rintf(x)) E(to_int(x)) E(to_uint(x)) E((float)(i32)a) E((float)a) E((float)A) E((float)(i64)A) E((float)(u8)a) \
    E((float)(u8)(a >> 16)) E((double)x) E((f16)x) E(x * 2.f) E(x * 0.5f) E(x + x) E(x - __builtin_floorf(x)) E(x != x) E(__builtin_isinf(x) != 0) \
    E(x > 0 ? __builtin_sqrtf(x) : -x) E((x < y ? x : y) * (x < y ? y : x)) E(x * x + y * y)

#define DOUBLE(E) E(X + Y) E(X - Y) E(X * Y) E(X / Y) E(__builtin_fma(X, Y, Z)) E(__builtin_sqrt(X)) E(-X) E(__builtin_fabs(X)) E(X < Y) E(X == Y) E(X < Y ? X : Z) \
    E(__builtin_floor(X)) E(__builtin_ceil(X)) E(__builtin_trunc(X)) E(__builtin_rint(X)) E((float)X) E((double)(i32)a) E((double)a) E((double)A) E((double)(i64)A) \
    E(to_long(X)) E(X * Y + Z) E(X != X) E((double)x * (double)y)

#define HALF(E) E((f16)(h + g)) E((f16)(h - g)) E((f16)(h * g)) E((f16)-h) E(h < g) E(h == g) E(h >= g) E((float)h) E(h < g ? h : g) E((float)h * (float)g) \
    E((f16)(float)(u8)a) E((f16)__builtin_floorf((float)h)) E((float)h + x)

#define LISTS(L) L(INT, ints) L(LONG, longs) L(FLOAT, floats) L(DOUBLE, doubles) L(HALF, halves)

#define OPERANDS \
    u64 A = pa[i], B = pb[i], C = pc[i]; \
    u32 a = (u32)A, b = (u32)B, c = (u32)C; \
    float x = asf(a), y = asf(b), z = asf(c); \
    double X = asd(A), Y = asd(B), Z = asd(C); \
    f16 h = ash(a), g = ash(b); \
    (void)x, (void)y, (void)z, (void)X, (void)Y, (void)Z, (void)h, (void)g, (void)c;
#define STORE(e) out[k++ * n + i] = R(e);

#ifdef __AMDGCN__
#define LIST(L, name) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256))) void name(const u64* pa, const u64* pb, const u64* pc, u64* out, u32 n) { \
        u64 i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x(); \
        if (i >= n) return; \
        OPERANDS u64 k = 0; L(STORE) \
    }
LISTS(LIST)
#elif !defined(__HIP__)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define COUNT(e) + 1
#define LIST(L, name) \
    static const u64 count_##name = 0 L(COUNT); \
    static void name(const u64* pa, const u64* pb, const u64* pc, u64* out, u64 n) { \
        for (u64 i = 0; i < n; i++) { OPERANDS u64 k = 0; L(STORE) } \
    }
LISTS(LIST)
int main(int argc, char** argv) {
    u64 n;
    if (argc < 2 || fread(&n, 8, 1, stdin) != 1) return 1;
    u64* in = (u64*)malloc(3 * n * 8);
    if (fread(in, 8, 3 * n, stdin) != 3 * n) return 2;
#define RUN(L, name) if (!strcmp(argv[1], #name)) { \
        u64* out = (u64*)malloc(count_##name * n * 8); \
        name(in, in + n, in + 2 * n, out, n); \
        return fwrite(out, 8, count_##name * n, stdout) == count_##name * n ? 0 : 3; \
    }
    LISTS(RUN)
    return 4;
}
#endif
