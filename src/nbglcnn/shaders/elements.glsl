// main() of kernels that find each element by itself: float source(ivec4 at), at = (n, c, y, x).
// Loops instead of a call per lane and layer: calls are inlined, and 16 copies of the index arithmetic
// take llvmpipe half a minute to compile. Bounds known only at run time keep compilers from unrolling.
void main() {
  ivec4 base = origin();
  o0 = vec4(0.0);
#if LAYERS > 1
  o1 = vec4(0.0);
#endif
#if LAYERS > 2
  o2 = o3 = vec4(0.0);
#endif
  int lanes = base.x < 0 ? 0 : min(u.o.frame.y - base.y * 4, 4);
  for (int k = 0; k < u.o.block.x * u.o.block.y * u.o.block.z; k++) {
    int dx = k % BX, dy = (k / BX) % BY, dn = k / (BX * BY);
    // Pixels of a block that lie outside the map repeat its edge: nobody reads them, but the address must exist.
    ivec3 p = min(ivec3(base.x + dn, base.z + dy * u.o.phase.x, base.w + dx * u.o.phase.y), u.o.frame.xzw - 1);
    vec4 v = vec4(0.0);
    for (int lane = 0; lane < lanes; lane++) {
      float e = source(ivec4(p.x, base.y * 4 + lane, p.yz));
      if (lane == 0) v.x = e; else if (lane == 1) v.y = e; else if (lane == 2) v.z = e; else v.w = e;
    }
    if (k == 0) o0 = v;
#if LAYERS > 1
    else if (k == 1) o1 = v;
#endif
#if LAYERS > 2
    else if (k == 2) o2 = v; else o3 = v;
#endif
  }
}
