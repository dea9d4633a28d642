// Maps sampled where a grid says (grid_positions.glsl).
// AXIS: -1, or along which axis of the grid not the samples are wanted, but how they change with its coordinate.

#if MODE == 1
float change(int k, float t) { return k == 0 ? -1.0 : 1.0; }
#elif MODE == 2
float change(int k, float t) {
  float d = abs(t - float(k));
  return sign(t - float(k)) * (d <= 1.0 ? (3.75 * d - 4.5) * d : (-2.25 * d + 7.5) * d - 6.0);
}
#endif

#if AXIS < 0
#define WEIGHT(axis, k, t, c) share(k, t)
#else
#define WEIGHT(axis, k, t, c) (axis == AXIS ? c.y * change(k, t) : share(k, t))
#endif

float along(ivec4 at, int k) {
  return flat_element(x1, u.x[1], ((at.x * u.o.nchw.z + at.z) * u.o.nchw.w + at.w) * u_axes + k);
}

vec4 pixel(ivec4 at) {
  ivec3 size = u_size;
  int first = u_first, last = u_last;
  vec2 x = coordinate(along(at, 0), size.z), y = coordinate(along(at, 1), size.y);
  float fx = floor(x.x), fy = floor(y.x);
#if DEPTH
  vec2 z = coordinate(along(at, 2), size.x);
  float fz = floor(z.x);
#endif
  vec4 sum = vec4(0.0);
#if DEPTH
  for (int kz = first; kz <= last; kz++) {
    int iz = inside(int(fz) + kz, size.x);
    float weight = WEIGHT(2, kz, z.x - fz, z);
    if (iz < 0) continue;
#else
    const int iz = 0;
    const float weight = 1.0;
#endif
    for (int ky = first; ky <= last; ky++) {
      int iy = inside(int(fy) + ky, size.y);
      if (iy < 0) continue;
      vec4 line = vec4(0.0);
      for (int kx = first; kx <= last; kx++) {
        int ix = inside(int(fx) + kx, size.z);
        if (ix < 0) continue;
        vec4 v = texel(x0, u.x[0], ivec4(at.xy, iz * size.y + iy, ix));
#if MODE == 0
        return v;
#else
        line += WEIGHT(0, kx, x.x - fx, x) * v;
#endif
      }
      sum += weight * WEIGHT(1, ky, y.x - fy, y) * line;
    }
#if DEPTH
  }
#endif
  return sum;
}
