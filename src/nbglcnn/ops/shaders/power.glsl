// 2^(y log2 x) is good to some 1e-7 y log2 x and undefined below 0; whole exponents multiply instead.
float power(float x, float y) {
  uint bits = floatBitsToUint(x) & 0x7fffffffu, ybits = floatBitsToUint(y) & 0x7fffffffu;
  if (ybits == 0u || x == 1.0) return 1.0;
  if (bits > 0x7f800000u || ybits > 0x7f800000u) return uintBitsToFloat(0x7fc00000u);
  if (y == 0.5 && bits != 0u && bits != 0x7f800000u) return sqrt(x);
  float infinity = uintBitsToFloat(0x7f800000u), a = abs(x), size = abs(y);
  bool whole = size == floor(size);
  bool odd = whole && size < 16777216.0 && floor(size * 0.5) * 2.0 != size;
  bool negative = (floatBitsToUint(x) >> 31) == 1u;
  float result;
  if (ybits == 0x7f800000u)
    return a == 1.0 ? 1.0 : ((a > 1.0) == (y > 0.0) ? infinity : 0.0);
  if (bits == 0u || bits == 0x7f800000u) {
    result = (bits == 0u) == (y > 0.0) ? 0.0 : infinity;
  } else if (whole && size <= 1024.0) {
    float base = a;
    int n = int(size);
    result = 1.0;
    for (int k = 0; k < 11 && n > 0; k++) {
      if ((n & 1) == 1) result *= base;
      base *= base;
      n >>= 1;
    }
    if (y < 0.0) result = 1.0 / result;
  } else {
    if (negative && !whole) return uintBitsToFloat(0x7fc00000u);
    // x = m 2^e with m around 1: the logarithm of m is small, so that the product loses little.
    int e = int(bits >> 23) - 127;
    float m = uintBitsToFloat((bits & 0x7fffffu) | 0x3f800000u);
    if (m > 1.41421356) { m *= 0.5; e++; }
    float s = (m - 1.0) / (m + 1.0), q = s * s;
    float log2m = s * (2.885390082 + q * (0.961796694 + q * (0.577078016 + q * (0.412198583 + q * 0.320598898))));
    float t = y * float(e), whole_part = floor(t + 0.5);
    float rest = (t - whole_part) + y * log2m;
    float further = floor(rest + 0.5);
    float n = whole_part + further;
    result = n > 160.0 ? infinity : (n < -160.0 ? 0.0 : exp2(rest - further) * exp2(floor(n * 0.5)) * exp2(n - floor(n * 0.5)));
  }
  return negative && odd ? -result : result;
}
