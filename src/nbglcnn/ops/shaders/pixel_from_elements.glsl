// vec4 pixel(ivec4 at) of kernels that find each element by itself: float source(ivec4 at), at = (n, c, y, x).
// A loop instead of a call per lane: calls are inlined, and 16 copies of the index arithmetic take llvmpipe
// half a minute to compile. The bound is known only at run time, which keeps compilers from unrolling.
vec4 pixel(ivec4 at) {
  int lanes = min(u.o.nchw.y - at.y * 4, 4);
  vec4 v = vec4(0.0);
  for (int lane = 0; lane < lanes; lane++) {
    float e = source(ivec4(at.x, at.y * 4 + lane, at.zw));
    if (lane == 0) v.x = e; else if (lane == 1) v.y = e; else if (lane == 2) v.z = e; else v.w = e;
  }
  return v;
}
