// What both stages of the display know. One draw is one picture: the viewport. kernels.ts says what its numbers are.

// The values at the ends of the colour map, as half the lowest one and half of what lies between: all of it may
// overflow. Where nothing lies between, all values are in the middle of a signed map, else at the low end.
vec2 ends(float low, float high) {
  if (low > high) low = high = 0.0; // no finite value
  float most = max(abs(low), abs(high));
  if (u_scaling == 3) { low = min(low, 0.0); high = max(high, 0.0); }
  else if (u_scaling != 1) { low = -most; high = most; }
  vec2 half_of = vec2(low * 0.5, high * 0.5 - low * 0.5);
  return half_of.y > 0.0 ? half_of : vec2(u_scaling == 0 ? -0.25 * BIG : low * 0.5, 0.5 * BIG);
}
