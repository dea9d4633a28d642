// The remainder of a division toward zero, exact: |b| is doubled up to |a| and subtracted where it fits.
float remainder_of(float a, float b, float rest) {
  uint ra = floatBitsToUint(abs(a)), rb = floatBitsToUint(abs(b));
  if (ra >= 0x7f800000u || rb > 0x7f800000u || rb == 0u) return uintBitsToFloat(0x7fc00000u);
  if (rb == 0x7f800000u || abs(a) < abs(b)) return a;
  return a < 0.0 ? -rest : rest;
}

// One loop for all lanes: compilers take seconds for each.
vec4 remainder(vec4 a, vec4 b) {
  vec4 rest = abs(a), part = abs(b);
  ivec4 steps = (floatBitsToInt(rest) >> 23) - (floatBitsToInt(part) >> 23);
  vec4 scale = intBitsToFloat((clamp(steps, 0, 126) + 127) << 23);
  vec4 more = intBitsToFloat((clamp(steps - 126, 0, 127) + 127) << 23);
  part = part * scale * more;
  int most = max(max(steps.x, steps.y), max(steps.z, steps.w));
  for (int k = 0; k <= most; k++) {
    rest -= part * vec4(greaterThanEqual(rest, part)) * vec4(lessThanEqual(ivec4(k), steps));
    part *= 0.5;
  }
  return vec4(
    remainder_of(a.x, b.x, rest.x), remainder_of(a.y, b.y, rest.y),
    remainder_of(a.z, b.z, rest.z), remainder_of(a.w, b.w, rest.w)
  );
}
