// main() of kernels whose vec4 pixel(ivec4 at) is long: one copy in a loop, where pixel_main.glsl has one for each layer.
// The bound is known only at run time, which keeps compilers from unrolling.
void main() {
  ivec4 base = origin();
  o0 = vec4(0.0);
#if LAYERS > 1
  o1 = vec4(0.0);
#endif
#if LAYERS > 2
  o2 = o3 = vec4(0.0);
#endif
  int layers = base.x < 0 ? 0 : u.o.block.x * u.o.block.y * u.o.block.z;
  for (int k = 0; k < layers; k++) {
    int dx = k % BX, dy = (k / BX) % BY, dn = k / (BX * BY);
    // Pixels of a block that lie outside the map repeat its edge: nobody reads them, but the address must exist.
    ivec4 at = min(base + ivec4(dn, 0, dy * u.o.phase.x, dx * u.o.phase.y),
                   ivec4(u.o.nchw.x - 1, base.y, u.o.nchw.zw - 1));
    vec4 v = keep(pixel(at), base.y);
    if (k == 0) o0 = v;
#if LAYERS > 1
    else if (k == 1) o1 = v;
#endif
#if LAYERS > 2
    else if (k == 2) o2 = v; else o3 = v;
#endif
  }
}
