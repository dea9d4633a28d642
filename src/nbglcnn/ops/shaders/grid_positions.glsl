// Where a grid says, in coordinates from -1 to 1, that maps (or volumes, DEPTH) are read, and which pixels that mixes.
// MODE: 0 the nearest pixel, 1 linear, 2 cubic mixtures. PADDING, outside the map: 0 zeros, 1 the edge, 2 mirrored.
// u_size of the map (depth, height, width); u_aligned: whether -1 and 1 are the middles of corner pixels; u_axes:
// coordinates in the grid for each sample; u_first and u_last neighbour along each axis that are mixed: numbers, so
// that no compiler unrolls 64 reads.

// A coordinate that is mirrored at both ends as often as it takes, and its slope: 1 or -1.
vec2 unfolded(float v, float low, float high) {
  float range = high - low, far = v < low ? low - v : v - high;
  if (far <= 0.0) return vec2(v, 1.0);
  if (range <= 0.0) return vec2(low, 0.0);
  float times = floor(far / range), rest = far - times * range;
  bool even = mod(times, 2.0) == 0.0, start = (v < low) == even;
  return vec2(start ? low + rest : high - rest, even ? -1.0 : 1.0);
}

vec2 mirrored(float v, int size) {
  return u_aligned == 1 ? unfolded(v, 0.0, float(size - 1)) : unfolded(v, -0.5, float(size) - 0.5);
}

// The pixel coordinate along one axis, and its slope: how far it moves with the grid's. As PyTorch has it, there is none
// at the end of a map that is not left.
vec2 coordinate(float v, int size) {
  float length = float(size), slope = u_aligned == 1 ? (length - 1.0) / 2.0 : length / 2.0;
  v = u_aligned == 1 ? (v + 1.0) / 2.0 * (length - 1.0) : ((v + 1.0) * length - 1.0) / 2.0;
#if MODE == 0
  v = roundEven(v);
#endif
#if PADDING == 2
  vec2 there = mirrored(v, size);
  v = there.x;
  slope *= there.y;
#endif
#if PADDING && MODE != 2
  if (v <= 0.0 || v >= length - 1.0) slope = 0.0;
#endif
#if PADDING == 1 && MODE != 2  // ONNX clamps here for cubic mixtures too; PyTorch and ONNX Runtime do not
  v = clamp(v, 0.0, length - 1.0);
#endif
  return vec2(clamp(v, -8.0, length + 8.0), slope);  // far outside all are alike, and an int can hold it
}

// A pixel's number along one axis, -1 where there is none.
int inside(int place, int size) {
#if PADDING == 0
  return place < 0 || place >= size ? -1 : place;
#else
#if PADDING == 2
  place = int(mirrored(float(place), size).x);
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
