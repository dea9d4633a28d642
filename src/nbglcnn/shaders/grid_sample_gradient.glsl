// The gradient of sampled maps: each pixel takes of every sample's as much as that has of the pixel.
// x0 gradients of the samples, x1 their pixel coordinates, x2 for each tile of samples which pixels any of them reads
// (grid_bounds.glsl), i[2] tiles in a row, and the tiles of this pass: from, to. FURTHER: x3 is what earlier passes found.

// How much of a sample at coordinate v is the pixel's along one axis.
float part(float v, int place, int size) {
  float low = floor(v), sum = 0.0;
  for (int k = u.i[1].z; k <= u.i[1].w; k++) {
    if (inside(int(low) + k, size) == place) sum += share(k, v - low);
  }
  return sum;
}

vec4 pixel(ivec4 at) {
  int slice = quotient(at.z, u.i[0].y);
  ivec3 here = ivec3(at.w, at.z - slice * u.i[0].y, slice), size = u.i[0].zyx;
  vec4 sum = vec4(0.0);
#if FURTHER
  sum = texel(x3, u.x[3], at);
#endif
  for (int tile = u.i[2].y; tile < u.i[2].z; tile++) {
    if (any(lessThan(here, ivec3(texel(x2, u.x[2], ivec4(at.x, 0, 0, tile)).xyz)))) continue;
    if (any(greaterThan(here, ivec3(texel(x2, u.x[2], ivec4(at.x, 1, 0, tile)).xyz)))) continue;
    int row = tile / u.i[2].x;
    ivec2 from = ivec2(row, tile - row * u.i[2].x) * SIDE, to = min(from + SIDE, u.x[0].nchw.zw);
    for (int y = from.x; y < to.x; y++)
    for (int x = from.y; x < to.y; x++) {
      vec4 v = texel(x1, u.x[1], ivec4(at.x, 0, y, x));
      float share = part(v.x, here.x, size.x) * part(v.y, here.y, size.y);
#if DEPTH
      share *= part(v.z, here.z, size.z);
#endif
      if (share != 0.0) sum += share * texel(x0, u.x[0], ivec4(at.xy, y, x));
    }
  }
  return sum;
}
