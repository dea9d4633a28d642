// Convolution (and its transpose) whose groups don't fall on multiples of four channels. x0: input, x1: bias,
// x2: residual. Each lane of the output reads its own input channels, so that a NaN of another group cannot reach
// it through a zero weight, x3: kernel as a tensor (I/groups, O, KH, KW).
// u_inputs and u_outputs: channels of one group. DEPTH: over volumes (volume_rows.glsl); the
// kernel's slices lie one below the other as well.

const int FAR = 65536;

vec4 sum(ivec4 at) {
  vec4 acc = vec4(0.0);
  ivec4 group = (ivec4(0, 1, 2, 3) + at.y * 4) / u_outputs;
  ivec4 first = min(group * u_inputs, ivec4(u.x[0].nchw.y - u_inputs));
#if DEPTH
  for (int kz = 0; kz < u_deep.x; kz++) {
#if TRANSPOSED
  int r = SLICE(at.z) + u_deep.w - kz * u_deep.z + FAR * u_deep.y;
  if (r % u_deep.y != 0) continue;
  int slice = r / u_deep.y - FAR;
#else
  int slice = SLICE(at.z) * u_deep.y - u_deep.w + kz * u_deep.z;
#endif
  if (slice < 0 || slice >= u_slices) continue;
  int top = slice * HEIGHT, above = kz * u_kernel.x;
#else
  const int top = 0, above = 0;
#endif
  for (int ky = 0; ky < u_kernel.x; ky++) {
#if TRANSPOSED
    int t = ROW(at.z) + u_padding.x - ky * u_dilation.x + FAR * u_stride.x;
    if (t % u_stride.x != 0) continue;
    int y = t / u_stride.x - FAR;
#else
    int y = ROW(at.z) * u_stride.x - u_padding.x + ky * u_dilation.x;
#endif
    if (y < 0 || y >= HEIGHT) continue;
    for (int kx = 0; kx < u_kernel.y; kx++) {
#if TRANSPOSED
      int s = at.w + u_padding.y - kx * u_dilation.y + FAR * u_stride.y;
      if (s % u_stride.y != 0) continue;
      int x = s / u_stride.y - FAR;
#else
      int x = at.w * u_stride.y - u_padding.y + kx * u_dilation.y;
#endif
      if (x < 0 || x >= u.x[0].nchw.w) continue;
      for (int i = 0; i < u_inputs; i++) {
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
