// The end of a convolution: bias (x1), residual (x2) and activation, then the store.
// RESIDUAL: 1 to add x2 as it lies, 2 where it lies as the output does.

#if RESIDUAL
vec4 residual(ivec4 at, int k) {
#if RESIDUAL == 2
  return fetch(x2, ivec3(gl_FragCoord.xy, k));
#else
  int dx = k % BX, dy = (k / BX) % BY, dn = k / (BX * BY);
  ivec4 p = at + ivec4(dn, 0, dy * u.o.phase.x, dx * u.o.phase.y);
  return texel(x2, u.x[2], ivec4(p.x, p.y, min(p.zw, u.o.nchw.zw - 1)));
#endif
}
#define RESULT(v, k) activate(v + bias + residual(at, k))
#else
#define RESULT(v, k) activate(v + bias)
#endif

void finish(ivec4 at, vec4 a0
#if LAYERS > 1
  , vec4 a1
#endif
#if LAYERS > 2
  , vec4 a2, vec4 a3
#endif
) {
  int g = at.x >= 0 ? at.y : u.o.tile.w;  // past the last tile the texture holds zeros
  vec4 bias = vec4(0.0);
#if BIAS
  int columns = u.x[1].tile.z, row = over(at.y, columns);
  bias = fetch(x1, LIES(x1, u.x[1], ivec3(at.y - row * columns, row, 0)));
#endif
  at = max(at, 0);
  o0 = RESULT(a0, 0);
#if LAYERS > 1
  o1 = RESULT(a1, 1);
#endif
#if LAYERS > 2
  o2 = RESULT(a2, 2);
  o3 = RESULT(a3, 3);
#endif
#if !WHOLE
  if (u.o.nchw.y - 4 * g >= 4) return;
  o0 = keep(o0, g);
#if LAYERS > 1
  o1 = keep(o1, g);
#endif
#if LAYERS > 2
  o2 = keep(o2, g), o3 = keep(o3, g);
#endif
#endif
}
