// Sine and cosine of every float: the polynomials of Cephes' sinf and cosf, of what is left of the nearest quarter turn.
// Up to 512 that is found by Cody and Waite's three parts of a quarter turn, beyond by Payne and Hanek's way: of
// the product of the mantissa and the bits of 2 / pi only those matter that are neither whole turns nor too small.

// 32 zeros, then the bits of 2 / pi.
const uint QUARTERS[7] = uint[7](
  0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);

// |v| as quarter turns from the nearest one, and that one's number modulo four. |v| is at least 2^-7.
vec2 turned(uint bits) {
  uint mantissa = bits & 0x7fffffu | 0x800000u;
  uint from = max(bits >> 23 & 255u, 120u) - 120u;  // where the bits begin that aren't whole turns
  uint word = from >> 5, shift = from & 31u;
  uint first = QUARTERS[word], second = QUARTERS[word + 1u], third = QUARTERS[word + 2u];
  // Twice, since a shift by 32 is undefined.
  uint high = first << shift | second >> 1 >> (31u - shift), low = second << shift | third >> 1 >> (31u - shift);
  // mantissa * low / 2^16 from halves, since an integer has 32 bits; its upper ones belong to the product with `high`.
  uint a = mantissa >> 12, b = mantissa & 0xfffu, c = low >> 16, d = low & 0xffffu;
  uint middle = b * c + (a * d >> 4) + (b * d >> 16) + ((a * c & 15u) << 12);
  uint found = mantissa * high + (a * c >> 4) + (middle >> 16);  // 2^32 are a turn
  uint nearest = (found + 0x20000000u) >> 30;
  return vec2((float(int(found - (nearest << 30))) + float(middle & 0xffffu) / 65536.0) / 1073741824.0, float(nearest));
}

// The sine of v and of so many quarter turns.
vec4 sine(vec4 v, float quarters) {
  vec4 turns = roundEven(v * 0.6366197723675814);
  vec4 r = ((v - turns * 1.5703125) - turns * 4.837512969970703e-4) - turns * 7.549789954891882e-8;
  uvec4 bits = floatBitsToUint(v);
  bvec4 far = greaterThan(bits & 0x7fffffffu, uvec4(0x44000000u));  // 512
  if (any(far)) {
    vec2 x = turned(bits.x), y = turned(bits.y), z = turned(bits.z), w = turned(bits.w);
    vec4 rest = vec4(x.x, y.x, z.x, w.x) * 1.5707963267948966, whole = vec4(x.y, y.y, z.y, w.y);
    bvec4 negative = lessThan(v, vec4(0.0));
    r = select(far, select(negative, -rest, rest), r);
    turns = select(far, select(negative, -whole, whole), turns);
  }
  vec4 s = r * r, quarter = mod(turns + quarters, 4.0);
  vec4 sines = r + r * s * (-0.16666654611 + s * (8.3321608736e-3 - s * 1.9515295891e-4));
  vec4 cosines = 1.0 - 0.5 * s + s * s * (4.166664568298827e-2 + s * (-1.388731625493765e-3 + s * 2.443315711809948e-5));
  vec4 found = select(equal(mod(quarter, 2.0), vec4(1.0)), cosines, sines);
  found = select(greaterThan(quarter, vec4(1.5)), -found, found);
  bvec4 wild = greaterThanEqual(bits & 0x7fffffffu, uvec4(0x7f800000u));
  return select(wild, vec4(uintBitsToFloat(0x7fc00000u)), found);
}
