// The gradient of sampled maps: each pixel takes of every sample's as much as that has of the pixel.
// x0 gradients of the samples, x1 their pixel coordinates, x2 which pixels any sample of a tile reads (grid_bounds.glsl,
// which also says u_across and u_tiles); this pass has the large tiles from u_begin to before u_end. FURTHER: x3 is what
// earlier passes found.

// How much of a sample at coordinate v is the pixel's along one axis.
#define TERM(k) (inside(int(low) + k, size) == place ? share(k, v - low) : 0.0)
float part(float v, int place, int size) {
  float low = floor(v);
#if MODE == 0
  return TERM(0);
#elif MODE == 1
  return TERM(0) + TERM(1);
#else
  return TERM(-1) + TERM(0) + TERM(1) + TERM(2);
#endif
}

vec4 pixel(ivec4 at) {
  int slice = quotient(at.z, u_size.y);
  ivec3 here = ivec3(at.w, at.z - slice * u_size.y, slice), size = u_size.zyx;
  vec3 place = vec3(here), unit = vec3(UNIT(x1), 1.0), unit_of_bounds = vec3(UNIT(x2), 1.0);
  vec3 coordinates = corner(u.x[1], at.x, 0), bounds = corner(u.x[2], at.x, 0);
#define BOUND(c, tile) SAMPLE(x2, u.x[2], (c + vec3(tile, 0, 0)) * unit_of_bounds)
#if DEPTH
  vec3 others = corner(u.x[2], at.x, 1);
#define OUTSIDE(tile) (any(lessThan(place, BOUND(bounds, tile).xyz)) || any(greaterThan(place, BOUND(others, tile).xyz)))
#else
#define OUTSIDE(tile) any(lessThan(vec4(place.xy, -place.xy), BOUND(bounds, tile) * vec4(1.0, 1.0, -1.0, -1.0)))
#endif
#if FURTHER
  vec4 sum = texel(x3, u.x[3], at);
#else
  vec4 sum = vec4(0.0);
#endif
  for (int large = u_begin; large < u_end; large++) {
    if (OUTSIDE(u_tiles + large)) continue;
    int row = large / u_across.y;
    ivec2 begin = ivec2(row, large - row * u_across.y) * LARGE, end = min(begin + LARGE, u.x[0].nchw.zw);
    for (int top = begin.x; top < end.x; top += SMALL)
    for (int left = begin.y; left < end.y; left += SMALL) {
      if (OUTSIDE(top / SMALL * u_across.x + left / SMALL)) continue;
      ivec2 to = min(ivec2(top, left) + SMALL, end);
      for (int y = top; y < to.x; y++)
      for (int x = left; x < to.y; x++) {
        vec3 v = SAMPLE(x1, u.x[1], (coordinates + vec3(x, y, 0)) * unit).xyz;
        float share = part(v.x, here.x, size.x);
        if (share == 0.0) continue;
        share *= part(v.y, here.y, size.y);
#if DEPTH
        share *= part(v.z, here.z, size.z);
#endif
        if (share != 0.0) sum += share * texel(x0, u.x[0], ivec4(at.xy, y, x));
      }
    }
  }
  return sum;
}
