// main() of the convolutions that compute one pixel at a time with sum(at).

ivec4 pixel_of(ivec4 at, int k) {
  int dx = k % BX, dy = (k / BX) % BY, dn = k / (BX * BY);
  return at + ivec4(dn, 0, dy * u.o.phase.x, dx * u.o.phase.y);
}

void main() {
  ivec4 at = origin();
  bool inside = at.x >= 0;
  finish(at, inside ? sum(at) : vec4(0.0)
#if LAYERS > 1
    , inside ? sum(pixel_of(at, 1)) : vec4(0.0)
#endif
#if LAYERS > 2
    , inside ? sum(pixel_of(at, 2)) : vec4(0.0), inside ? sum(pixel_of(at, 3)) : vec4(0.0)
#endif
  );
}
