// Convolution (and its transpose) whose groups don't fall on multiples of four channels. x0: input, x1: bias,
// x2: residual. Each lane of the output reads its own input channels, so that a NaN of another group cannot reach
// it through a zero weight, x3: kernel as a tensor (I/groups, O, KH, KW).
// i[0], i[1] as in conv.glsl; i[2] input and output channels of one group. DEPTH: over volumes (depth.glsl); the
// kernel's slices lie one below the other as well.

#define KERNEL u.i[0].xy
#define STRIDE u.i[0].zw
#define DILATION u.i[1].xy
#define PADDING u.i[1].zw
const int FAR = 65536;

vec4 sum(ivec4 at) {
  vec4 acc = vec4(0.0);
  ivec4 group = (ivec4(0, 1, 2, 3) + at.y * 4) / u.i[2].y;
  ivec4 first = min(group * u.i[2].x, ivec4(u.x[0].nchw.y - u.i[2].x));
#if DEPTH
  for (int kz = 0; kz < DEEP.x; kz++) {
#if TRANSPOSED
  int r = SLICE(at.z) + DEEP.w - kz * DEEP.z + FAR * DEEP.y;
  if (r % DEEP.y != 0) continue;
  int slice = r / DEEP.y - FAR;
#else
  int slice = SLICE(at.z) * DEEP.y - DEEP.w + kz * DEEP.z;
#endif
  if (slice < 0 || slice >= SLICES) continue;
  int top = slice * HEIGHT, above = kz * KERNEL.x;
#else
  const int top = 0, above = 0;
#endif
  for (int ky = 0; ky < KERNEL.x; ky++) {
#if TRANSPOSED
    int t = ROW(at.z) + PADDING.x - ky * DILATION.x + FAR * STRIDE.x;
    if (t % STRIDE.x != 0) continue;
    int y = t / STRIDE.x - FAR;
#else
    int y = ROW(at.z) * STRIDE.x - PADDING.x + ky * DILATION.x;
#endif
    if (y < 0 || y >= HEIGHT) continue;
    for (int kx = 0; kx < KERNEL.y; kx++) {
#if TRANSPOSED
      int s = at.w + PADDING.y - kx * DILATION.y + FAR * STRIDE.y;
      if (s % STRIDE.y != 0) continue;
      int x = s / STRIDE.y - FAR;
#else
      int x = at.w * STRIDE.y - PADDING.y + kx * DILATION.y;
#endif
      if (x < 0 || x >= u.x[0].nchw.w) continue;
      for (int i = 0; i < u.i[2].x; i++) {
        vec4 v = vec4(
          element(x0, u.x[0], ivec4(at.x, first.x + i, top + y, x)),
          element(x0, u.x[0], ivec4(at.x, first.y + i, top + y, x)),
          element(x0, u.x[0], ivec4(at.x, first.z + i, top + y, x)),
          element(x0, u.x[0], ivec4(at.x, first.w + i, top + y, x)));
        acc += v * texel(x3, u.x[3], ivec4(i, at.y, above + ky, kx));
      }
    }
  }
#if DEPTH
  }
#endif
  return acc;
}
