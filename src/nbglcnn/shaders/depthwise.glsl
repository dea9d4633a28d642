// Convolution with one input channel per output channel (groups == channels, multiplier 1), and its transpose.
// x0: input, x1: bias, x2: residual, x3: kernel as a tensor (1, C, KH, KW). Numbers as in conv.glsl.

#define KERNEL u.i[0].xy
#define STRIDE u.i[0].zw
#define DILATION u.i[1].xy
#define PADDING u.i[1].zw
const int FAR = 65536;  // keeps quotients and remainders of negative coordinates well defined

vec4 sum(ivec4 at) {
  vec4 acc = vec4(0.0);
  for (int ky = 0; ky < KERNEL.x; ky++) {
#if TRANSPOSED
    int t = at.z + PADDING.x - ky * DILATION.x + FAR * STRIDE.x;
    if (t % STRIDE.x != 0) continue;
    int y = t / STRIDE.x - FAR;
#else
    int y = at.z * STRIDE.x - PADDING.x + ky * DILATION.x;
#endif
    if (y < 0 || y >= u.x[0].frame.z) continue;
    for (int kx = 0; kx < KERNEL.y; kx++) {
#if TRANSPOSED
      int s = at.w + PADDING.y - kx * DILATION.y + FAR * STRIDE.y;
      if (s % STRIDE.y != 0) continue;
      int x = s / STRIDE.y - FAR;
#else
      int x = at.w * STRIDE.y - PADDING.y + kx * DILATION.y;
#endif
      if (x < 0 || x >= u.x[0].frame.w) continue;
      acc += texel(x0, u.x[0], ivec4(at.x, at.y, y, x)) * texel(x3, u.x[3], ivec4(0, at.y, ky, kx));
    }
  }
  return acc;
}
