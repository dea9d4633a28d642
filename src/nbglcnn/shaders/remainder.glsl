// The remainder of a division toward zero, exact: |b| is doubled up to |a| and subtracted where it fits.
float remainder(float a, float b) {
  float rest = abs(a), part = abs(b);
  uint ra = floatBitsToUint(rest), rb = floatBitsToUint(part);
  if (ra >= 0x7f800000u || rb > 0x7f800000u || rb == 0u) return uintBitsToFloat(0x7fc00000u);
  if (rb == 0x7f800000u || rest < part) return a;
  int steps = int(ra >> 23) - int(rb >> 23);
  float scale = uintBitsToFloat(uint(clamp(steps, 0, 126) + 127) << 23);
  float more = uintBitsToFloat(uint(clamp(steps - 126, 0, 127) + 127) << 23);
  part = part * scale * more;
  for (int k = steps; k >= 0; k--) {
    if (rest >= part) rest -= part;
    part *= 0.5;
  }
  return a < 0.0 ? -rest : rest;
}
