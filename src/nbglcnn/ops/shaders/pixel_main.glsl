// For a kernel that says what one pixel is: vec4 pixel(ivec4 at), at = (n, g, y, x).

ivec4 within(ivec4 base, int k) {
  int dx = k % BX, dy = (k / BX) % BY, dn = k / (BX * BY);
  return base + ivec4(dn, 0, dy * u.o.phase.x, dx * u.o.phase.y);
}

void main() {
  ivec4 base = origin();
  if (base.x < 0) {
    o0 = vec4(0.0);
#if LAYERS > 1
    o1 = vec4(0.0);
#endif
#if LAYERS > 2
    o2 = o3 = vec4(0.0);
#endif
    return;
  }
  o0 = keep(pixel(base), base.y);
#if LAYERS > 1
  o1 = keep(pixel(within(base, 1)), base.y);
#endif
#if LAYERS > 2
  o2 = keep(pixel(within(base, 2)), base.y);
  o3 = keep(pixel(within(base, 3)), base.y);
#endif
}
