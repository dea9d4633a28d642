// Maps (or volumes, DEPTH) sampled where a grid says, in coordinates from -1 to 1.
// MODE: 0 the nearest pixel, 1 linear, 2 cubic mixtures. PADDING, outside the map: 0 zeros, 1 the edge, 2 mirrored.
// i[0] depth, height and width of the input, whether -1 and 1 are the middles of corner pixels; i[1] rows of one
// slice of the output, coordinates in x1 for each pixel, and the first and last neighbour along each axis that are
// mixed: numbers, so that no compiler unrolls 64 reads.

float unfolded(float v, float low, float high) {
  float range = high - low, far = v < low ? low - v : v - high;
  if (far <= 0.0) return v;
  if (range <= 0.0) return low;
  float times = floor(far / range), rest = far - times * range;
  bool start = (v < low) == (mod(times, 2.0) == 0.0);
  return start ? low + rest : high - rest;
}

float mirrored(float v, int size) {
  return u.i[0].w == 1 ? unfolded(v, 0.0, float(size - 1)) : unfolded(v, -0.5, float(size) - 0.5);
}

// The pixel coordinate along one axis.
float coordinate(float v, int size) {
  float length = float(size);
  v = u.i[0].w == 1 ? (v + 1.0) / 2.0 * (length - 1.0) : ((v + 1.0) * length - 1.0) / 2.0;
#if MODE == 0
  v = roundEven(v);
#endif
#if PADDING == 1 && MODE != 2  // ONNX clamps here for cubic mixtures too; PyTorch and ONNX Runtime do not
  v = clamp(v, 0.0, length - 1.0);
#elif PADDING == 2
  v = mirrored(v, size);
#endif
  return clamp(v, -8.0, length + 8.0);  // far outside all are alike, and an int can hold it
}

// A pixel's number along one axis, -1 where there is none.
int inside(int place, int size) {
#if PADDING == 0
  return place < 0 || place >= size ? -1 : place;
#else
#if PADDING == 2
  place = int(mirrored(float(place), size));
#endif
  return clamp(place, 0, size - 1);
#endif
}

#if MODE == 0
float share(int k, float t) { return 1.0; }
#elif MODE == 1
float share(int k, float t) { return k == 0 ? 1.0 - t : t; }
#else
float share(int k, float t) {
  float d = abs(t - float(k));
  return d <= 1.0 ? (1.25 * d - 2.25) * d * d + 1.0 : ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0;
}
#endif

float along(ivec4 at, int k) {
  return flat_element(x1, u.x[1], ((at.x * u.o.nchw.z + at.z) * u.o.nchw.w + at.w) * u.i[1].y + k);
}

vec4 pixel(ivec4 at) {
  ivec3 size = u.i[0].xyz;
  int first = u.i[1].z, last = u.i[1].w;
  float x = coordinate(along(at, 0), size.z), y = coordinate(along(at, 1), size.y);
  float fx = floor(x), fy = floor(y);
#if DEPTH
  float z = coordinate(along(at, 2), size.x), fz = floor(z);
#endif
  vec4 sum = vec4(0.0);
#if DEPTH
  for (int kz = first; kz <= last; kz++) {
    int iz = inside(int(fz) + kz, size.x);
    float weight = share(kz, z - fz);
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
        line += share(kx, x - fx) * v;
#endif
      }
      sum += weight * share(ky, y - fy) * line;
    }
#if DEPTH
  }
#endif
  return sum;
}
