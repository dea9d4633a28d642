// Padding and cropping. MODE: 0 a constant (u_margin, or x1 where it is COMPUTED), 1 the edge, 2 mirrored at the edge, 3 wrapped around.
// u_before: padding along n, c, h, w; u_first element kept; u_kept: how many are kept; u_folds: how often the farthest
// padding is folded back. CHANNELS: channels are padded too, so that elements are found one by one.

ivec4 folded(ivec4 p) {
  ivec4 length = u_kept;
#if MODE == 2
  for (int k = 0; k < u_folds; k++) {
    p = abs(p);
    p -= 2 * max(p - length + 1, 0);
  }
#elif MODE == 3
  for (int k = 0; k < u_folds; k++)
    p += ivec4(lessThan(p, ivec4(0))) * length - ivec4(greaterThanEqual(p, length)) * length;
#endif
  return u_first + clamp(p, ivec4(0), length - 1);
}

#if CHANNELS
float source(ivec4 at) {
  ivec4 p = at - u_before;
  float v = element(x0, u.x[0], folded(p));
#else
vec4 pixel(ivec4 at) {
  ivec4 p = min(at, ivec4(u.o.nchw.x - 1, at.y, u.o.nchw.zw - 1)) - u_before;
  ivec4 q = folded(p);
  vec4 v = texel(x0, u.x[0], ivec4(q.x, at.y, q.zw));
  p.y = 0;
#endif
#if MODE == 0
  bool outside = any(lessThan(p, ivec4(0))) || any(greaterThanEqual(p, u_kept));
#if COMPUTED
  float margin = element(x1, u.x[1], ivec4(0));
#else
  float margin = u_margin;
#endif
#if CHANNELS
  v = outside ? margin : v;
#else
  v = outside ? vec4(margin) : v;
#endif
#endif
  return v;
}
