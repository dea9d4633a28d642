// The end of a convolution: bias (x1), residual (x2) and activation, then the store.

vec4 result(ivec4 at, int k, vec4 v) {
#if BIAS
  v += texel(x1, u.x[1], ivec4(0, at.y, 0, 0));
#endif
#if RESIDUAL
  int dx = k % BX, dy = (k / BX) % BY, dn = k / (BX * BY);
  ivec4 p = at + ivec4(dn, 0, dy * u.o.phase.x, dx * u.o.phase.y);
  v += texel(x2, u.x[2], ivec4(p.x, p.y, min(p.zw, u.o.frame.zw - 1)));
#endif
  return keep(activate(v), at.y);
}

void finish(ivec4 at, vec4 a0
#if LAYERS > 1
  , vec4 a1
#endif
#if LAYERS > 2
  , vec4 a2, vec4 a3
#endif
) {
  bool inside = at.x >= 0;  // past the last tile the texture holds zeros
  o0 = inside ? result(at, 0, a0) : vec4(0.0);
#if LAYERS > 1
  o1 = inside ? result(at, 1, a1) : vec4(0.0);
#endif
#if LAYERS > 2
  o2 = inside ? result(at, 2, a2) : vec4(0.0);
  o3 = inside ? result(at, 3, a3) : vec4(0.0);
#endif
}
